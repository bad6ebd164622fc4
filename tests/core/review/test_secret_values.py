"""Secrets recognized by name or text, regardless of the provider's marks."""

from typing import Any

import pytest

from fairway_core.review.attributes import HIDDEN, masked
from fairway_core.secret_values import is_secret_name, tells_secret

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
    assert tells_secret(text) is (text in SECRET_TEXTS)
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
