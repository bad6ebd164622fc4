"""Changes of a resource by attribute, and of the manifests in an attribute; secrets recognized by
name or text, regardless of the provider's marks."""

from typing import Any

import pytest

from fairway_core.kubernetes import documents
from fairway_core.kubernetes.documents import manifest, objects_of, text
from fairway_core.review.attributes import (
    HIDDEN,
    UNKNOWN,
    AttributeChange,
    attribute_changes,
    masked,
)
from fairway_core.secret_values import contains_secret, is_secret_name


def _changes(before: Any, after: Any, **more: Any) -> list[tuple[str, Any, Any]]:
    change = {"before": before, "after": after, **more}
    return [(each.path, each.old, each.new) for each in attribute_changes(change)]


def test_attribute_changes_list_only_differences() -> None:
    assert _changes({"a": 1, "b": 2}, {"a": 1, "b": 3}) == [("b", 2, 3)]
    assert _changes({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}) == [("a.b.c", 1, 2)]
    assert _changes({"tags": {"my key": "x"}}, {"tags": {}}) == [('tags["my key"]', "x", None)]


@pytest.mark.parametrize("nothing", [None, "", [], {}, 0, False, [{}], [{"a": False}]])
def test_attribute_changes_treat_null_and_empty_as_equal(nothing: Any) -> None:
    assert _changes({"a": nothing}, {"a": None}) == []
    assert _changes({"a": None}, {"a": nothing}) == []
    assert _changes({"a": nothing}, {"a": 1})[0][2] == 1


def test_attribute_changes_exact_distinguishes_null_and_empty() -> None:
    change = {"before": {"a": [{"b": False}]}, "after": {"a": []}}
    assert attribute_changes(change) == []
    (found,) = attribute_changes(change, exact=True)
    assert (found.path, found.old, found.new) == ("a[0]", {"b": False}, None)


def test_attribute_changes_compare_named_blocks_by_name() -> None:
    one, two = {"name": "ssh", "port": 22}, {"name": "web", "port": 443}
    assert _changes({"rule": [one, two]}, {"rule": [two, one]}) == []
    three = {"name": "dns", "port": 53}
    assert _changes({"rule": [one, two]}, {"rule": [three, two, one]}) == [
        ("rule.dns", None, three)
    ]
    assert _changes({"rule": [one]}, {"rule": [{**one, "port": 23}]}) == [("rule.ssh.port", 22, 23)]


def test_attribute_changes_compare_unnamed_blocks_by_position() -> None:
    before, after = {"disk": [{"lun": 0}, {"lun": 1}]}, {"disk": [{"lun": 0}, {"lun": 2}]}
    assert _changes(before, after) == [("disk[1].lun", 1, 2)]
    assert _changes({"zones": ["1"]}, {"zones": ["2"]}) == [("zones", ["1"], ["2"])]


def test_attribute_changes_show_values_known_after_apply_as_unknown() -> None:
    assert _changes({"id": "x"}, {}, after_unknown={"id": True}) == [("id", "x", UNKNOWN)]
    assert _changes(
        {"ip": [{"name": "i", "subnet": "x"}]},
        {"ip": [{"name": "i"}]},
        after_unknown={"ip": [{"subnet": True}]},
    ) == [("ip.i.subnet", "x", UNKNOWN)]


class TestSecrets:
    SECRET = "hunter2"

    def _text(self, before: Any, after: Any, **masks: Any) -> str:
        text = repr(_changes(before, after, **masks))
        assert self.SECRET not in text
        assert repr(HIDDEN) in text, "the change itself is shown"
        return text

    def test_secrets_in_mask_are_hidden_on_both_sides(self) -> None:
        mask = {"before_sensitive": {"key": True}, "after_sensitive": {"key": True}}
        assert _changes({"key": self.SECRET}, {"key": "new"}, **mask) == [("key", HIDDEN, HIDDEN)]
        assert _changes({"key": self.SECRET}, {"key": self.SECRET}, **mask) == []
        assert masked({"a": [self.SECRET]}, {"a": {"b": True}}) == {"a": [HIDDEN]}

    BLOCK = ({"block": []}, {"block": [{"name": "a", "values": {"token": SECRET}}]})

    @pytest.mark.parametrize(
        ("before", "after", "masks"),
        [
            ({"key": SECRET}, {"key": "new"}, {"after_sensitive": {"key": True}}),
            ({"key": "old"}, {"key": SECRET}, {"before_sensitive": {"key": True}}),
            (*BLOCK, {"after_sensitive": {"block": [{"values": {"token": True}}]}}),
            (*BLOCK, {"after_sensitive": {"block": [True]}}),
            ({"a": 1}, {"a": SECRET}, {"after_sensitive": True}),
            ({"a": {"b": 1}}, {"a": {"b": SECRET}}, {"after_sensitive": {"a": True}}),
            # A mask of another shape hides everything.
            ({"a": {"b": 1}}, {"a": {"b": SECRET}}, {"after_sensitive": {"a": [True]}}),
        ],
    )
    def test_secrets_are_hidden_by_mask_at_any_level(
        self, before: Any, after: Any, masks: Any
    ) -> None:
        self._text(before, after, **masks)

    def test_secrets_in_a_reordered_block_are_masked(self) -> None:
        secret, plain = {"name": "a", "value": self.SECRET}, {"name": "b", "value": "old"}
        self._text(
            {"block": [secret, plain]},
            {"block": [{**plain, "value": "new"}, {**secret, "value": f"{self.SECRET}!"}]},
            before_sensitive={"block": [{"value": True}, {}]},
            after_sensitive={"block": [{}, {"value": True}]},
        )

    NESTED = "client_secret token secret value shared_key primary_key passphrase adminPassword"

    @pytest.mark.parametrize("name", f"{NESTED} DB_PASSWORD api_key password apiKey SAS".split())
    def test_secrets_by_name_in_nested_maps_are_masked(self, name: str) -> None:
        new = {"settings": {name: self.SECRET}, "list": [{"a": {name: self.SECRET}}]}
        assert self.SECRET not in repr(masked(new, False))
        old = {"settings": {name: "old"}, "list": [{"a": {name: "old"}}]}
        assert self.SECRET not in repr(_changes(old, new))
        assert "'old'" not in repr(_changes(old, new))

    def test_secrets_mask_leaves_similar_names_visible(self) -> None:
        plain = {"public_key": "a", "key_vault_id": "b", "key_name": "c", "secret": [], "value": 0}
        assert masked(plain, False) == plain
        assert masked({"name": "cpu", "value": "1"}, False) == {"name": "cpu", "value": "1"}

    def test_secrets_that_are_absent_are_shown_as_none(self) -> None:
        assert masked({"admin_password": None}, {"admin_password": True}) == {
            "admin_password": None
        }
        assert masked({}, {"key": True}, {"key": True}) == {"key": UNKNOWN}


def test_attribute_changes_mark_attributes_that_force_replacement() -> None:
    change = {
        "before": {"zone": "1", "tags": {"a": "b"}, "ip": [{"name": "i", "subnet": "x"}]},
        "after": {"zone": "2", "tags": {"a": "c"}, "ip": [{"name": "i", "subnet": "y"}]},
        "replace_paths": [["zone"], ["ip", 0, "subnet"]],
    }
    assert attribute_changes(change) == [
        AttributeChange("zone", "1", "2", forces=True),
        AttributeChange("tags.a", "b", "c", forces=False),
        AttributeChange("ip.i.subnet", "x", "y", forces=True),
    ]


QUOTA = {**manifest("v1", "ResourceQuota", "fairway", "training"), "spec": {"hard": {"pods": "8"}}}
SPACE = manifest("v1", "Namespace", "training")


def told(before: str, after: str, **more: Any) -> dict[str, tuple[Any, Any]]:
    change = {"before": {"source_content": before}, "after": {"source_content": after}, **more}
    return {each.path: (each.old, each.new) for each in attribute_changes(change)}


def test_manifest_changes_are_listed_by_object_and_field() -> None:
    less = {**QUOTA, "spec": {"hard": {"pods": "4"}}}
    path = 'source_content["ResourceQuota training/fairway"]'
    assert told(text([SPACE, QUOTA]), text([less, SPACE])) == {f"{path}.spec.hard.pods": ("8", "4")}
    assert told(text([SPACE]), text([SPACE, QUOTA])) == {path: (None, QUOTA)}
    assert told(text([SPACE, QUOTA]), text([SPACE])) == {path: (QUOTA, None)}
    # Each field forces a replacement of the blob.
    change: dict[str, Any] = {"replace_paths": [["source_content"]]}
    change |= {"before": {"source_content": text([QUOTA])}}
    change |= {"after": {"source_content": text([less])}}
    assert [each.forces for each in attribute_changes(change)] == [True]


NAMED = "kind: a\nmetadata: {name: a}\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    "other",
    [
        pytest.param("plain words", id="words"),
        pytest.param("kind: Namespace", id="nameless"),
        pytest.param("kind: Namespace\nmetadata: {name: [a]}", id="list"),
        pytest.param("kind: Namespace\nmetadata: {name: a, namespace: 1}", id="number"),
        pytest.param(f"{NAMED}---\n{NAMED}", id="twice"),
        pytest.param("kind: a\nmetadata: &m {name: a}\nother: *m", id="alias"),
        pytest.param(f"{NAMED}x: &x [*x]", id="endless"),
        pytest.param("kind: !!python/name:os.system a\nmetadata: {name: a}", id="tag"),
        pytest.param(f"{NAMED}kind: b", id="keys"),
        pytest.param(f"{NAMED}x: " + "[" * 65 + "]" * 65, id="deep"),
        pytest.param("kind: [", id="broken"),
        pytest.param(f"{NAMED}x: " + "y" * 2000, id="long"),
    ],
)
def test_manifest_changes_of_unparsable_text_are_a_single_text_change(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_LONGEST", 2000)
    assert objects_of(other) is None
    assert set(told(other, text([QUOTA]))) == {"source_content"}
    assert set(told(text([QUOTA]), other)) == {"source_content"}


def test_manifest_changes_keep_unknown_and_sensitive_contents() -> None:
    unknown = {"after_unknown": {"source_content": True}}
    [(_, new)] = told(text([QUOTA]), "", **unknown).values()
    assert repr(new) == "(known after apply)"
    secret = {"before_sensitive": {"source_content": True}}
    [(old, new)] = told(text([QUOTA]), text([SPACE]), **secret).values()
    assert repr(old) == repr(new) == "(sensitive)"


SECRET_TEXTS = [
    '{"password":"hunter2"}',
    '{\\"adminPassword\\":\\"hunter2\\"}',
    "export DB_PASSWORD=hunter2",
    "run --password hunter2",
    "run --db-password=hunter2 -x",
    'curl -H "Authorization: Bearer abcdefghijklmnop"',
    "postgres://u:hunter2@h/db",
    "x AccountKey=abcd",
    "Server=a;Password=hunter2;",
    "token: abcdef",
    "clientSecret: hunter2",
    "a?sv=1&sig=abcdefghijklmnopqrstu",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0",
    "hf_abcdefghij1234567890",
    "https://x/?sig=abcdefghijklmnopqrst",
    "client_secret = hunter2",
    "SharedAccessKeyName=Root;SharedAccessKey=abcdefghij",
    "{'token': 'abcdef1'}",
    "mysql -psecret --token=abcd1",
    "MYSQL_PWD=hunter2",
    '"apiKey":"hunter2"',
    "apikey=hunter22",
    '{"password": {"value": "hunter2"}}',
    '[{"a": {"token": ["x1"]}}]',
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
    "-----BEGIN RSA PRIVATE KEY-----\nhunter2",
]
PLAIN_TEXTS = [
    "https://a.blob.core.windows.net/",
    "/subscriptions/0/resourceGroups/x",
    "password=$PASSWORD",
    "token=$(curl http://169.254.169.254/metadata)",
    '--token "$TOKEN"',
    "the secret of success: none",
    'Perf | where token == "x"',
    "secret: keyvault:name",
    "2026-11-22T10:00:00Z",
    '{"keyVaultName":"x"}',
    "--secret-name abc --vault x",
    "key_vault_key_id=abcd",
    "the password of the user",
    "token_type=Bearer",
    "shared_access_key_enabled=false",
    "enable_token: true",
    '"secrets": {"a": 1}',
    "secretless: abcd",
    "mount -o credentials=/etc/smb/a.cred",
    "the token must be 5 characters",
]
_SECRET_NAMES = """
client-secret client.secret MYSQL_PWD root_pass tokens passwords key1 primary_key primaryKey2
private_key_pem secret_key SecretKey secretValue secret_value user_data munge_key
kube_config_raw kubeConfig connectionStrings sas AWS_SECRET_ACCESS_KEY GITHUB_TOKEN workspaceKey
storage_account_access_key protected_settings_json authorization password1 password_hash
accesskey storageKey hostKey
"""
_PLAIN_NAMES = """
public_key key_vault_id key_name admin_ssh_key bypass key customer_managed_key key_vault_key_id
shared_access_key_enabled disable_password_authentication secret_name token_endpoint
partition_key compass sasha purge_protection_enabled primary_key_name secret_id compute_key
ssh_keys access_key_id
"""
SECRET_NAMES, PLAIN_NAMES = [*_SECRET_NAMES.split(), "client secret"], _PLAIN_NAMES.split()


@pytest.mark.parametrize("text", [*SECRET_TEXTS, *PLAIN_TEXTS])
def test_secret_in_text_is_masked_and_other_text_is_shown(text: str) -> None:
    assert contains_secret(text) is (text in SECRET_TEXTS)
    shown = HIDDEN if text in SECRET_TEXTS else text
    value, safe = ({"settings": [{"line": each}, each]} for each in (text, shown))
    assert masked(value, False) == safe


@pytest.mark.parametrize("name", [*SECRET_NAMES, *PLAIN_NAMES])
def test_secret_name_is_recognized_in_any_spelling(name: str) -> None:
    assert is_secret_name(name) is (name in SECRET_NAMES)


@pytest.mark.parametrize("value", ["x", 7, ["x"], {"a": "x"}, {"a": [{"b": "x"}]}])
def test_secret_name_masks_any_nested_value(value: Any) -> None:
    assert masked({"outer": {"client-secret": value}}, False) == {
        "outer": {"client-secret": HIDDEN}
    }
