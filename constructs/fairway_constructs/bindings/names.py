"""Python names of Terraform's names.

A name that has another meaning in Python gets a trailing underscore, `scope_`; Terraform's names
never end in one, so the inverse is to strip it.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

# Types in annotations of the generated classes; a member of the same name would shadow
# them.
_ANNOTATIONS = frozenset({"bool", "float", "object", "str"})

# The arguments that the constructor of every resource has.
_CONSTRUCTOR = frozenset({"depends_on", "id", "lifecycle", "provider", "scope", "self"})

# The public members of cdktf's TerraformResource and TerraformDataSource and of our
# `Resource`; overriding one would change what cdktf does.
MEMBERS = frozenset(
    """
    PROVIDER TYPE add_move_target add_override cdktf_stack connection count depends_on for_each
    fqn friendly_unique_id get_any_map_attribute get_boolean_attribute get_boolean_map_attribute
    get_list_attribute get_number_attribute get_number_list_attribute get_number_map_attribute
    get_string_attribute get_string_map_attribute given has_resource_move import_from
    interpolation_for_attribute is_construct is_terraform_data_source is_terraform_element
    is_terraform_resource lifecycle move_from_id move_to move_to_id node override_logical_id
    provider provisioners reference reset_override_logical_id set_argument tags_input takes_tags
    terraform_address
    terraform_generator_metadata terraform_meta_arguments terraform_resource_type
    to_hcl_terraform to_metadata to_string to_terraform with_
    """.split()  # noqa: SIM905 - a column of strings would be forty lines
)

# The capitalized names that a generated module imports or defines.
_IMPORTS = frozenset(
    """
    Block BooleanAttribute Construct DataSource ITerraformDependable Lifecycle
    ListAttribute MapAttribute Mapping NumberAttribute NumberListAttribute ObjectAttribute
    ObjectValue Provider Resource Sequence StringAttribute Timeouts
    """.split()  # noqa: SIM905 - a column of strings would be forty lines
)


def module_name(terraform_type: str, *, data: bool = False) -> str:
    """Returns the module of a resource: azurerm_subnet → subnet, the data source → data_subnet."""
    name = terraform_type.partition("_")[2]
    return f"data_{name}" if data else name


def class_name(snake: str) -> str:
    """Returns the name in camel case: subnet → Subnet, os_disk → OsDisk."""
    return "".join(word[:1].upper() + word[1:] for word in snake.split("_"))


def block_class_name(path: tuple[str, ...], taken: Container[str]) -> str:
    """Returns a block's class name, from its path in the resource, plus Block if it is taken."""
    name = "".join(class_name(part) for part in path)
    while name in taken or name in _IMPORTS:
        name += "Block"
    return name


def field_name(attribute: str) -> str:
    """Returns an attribute's or block's name as the field of a block."""
    return (
        f"{attribute}_" if keyword.iskeyword(attribute) or attribute in _ANNOTATIONS else attribute
    )


def argument_name(attribute: str) -> str:
    """Returns an attribute's or block's name as an argument of a resource."""
    taken = attribute in MEMBERS or attribute in _CONSTRUCTOR
    return f"{attribute}_" if taken else field_name(attribute)


def member_name(attribute: str) -> str:
    """Returns an attribute's name as a member of a resource: the argument's, except for `id`."""
    return attribute if attribute == "id" else argument_name(attribute)
