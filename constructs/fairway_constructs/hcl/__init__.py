"""Terraform's own language, HCL, from the JSON that cdktf writes.

`to_hcl` converts the document of a stack, on which all checks run, so there is no second synthesis.
For `cdktf synth --hcl` `cdktf_attributes` passes a resource's arguments to cdktf.
"""

from fairway_constructs.hcl.document import BACKEND, cdktf_attributes, shape_of, to_hcl, write_hcl

__all__ = ["BACKEND", "cdktf_attributes", "shape_of", "to_hcl", "write_hcl"]
