"""What is said where Azure does not know who asks: mostly a sign-in that has expired."""

from __future__ import annotations

import re

# What Microsoft Entra ID answers where signing in again helps, and a second try does not. Source:
# learn.microsoft.com/entra/identity-platform/reference-error-codes.
_EXPIRED = re.compile(r"AADSTS(?:70043|700082|70008|50173|700084)\b")
_INSTALL_CLI = (
    "install the Azure CLI: https://learn.microsoft.com/cli/azure/install-azure-cli\nthen:"
)
_MORE_ASKED = re.compile(r"AADSTS(?:50076|50078|50079|53003)\b")


def sign_in_again(error: object) -> str:
    """Why the person has to sign in again; "" where something else is wrong.

    The SDK tries several credentials and begins its message with those that nobody has set up:
    what the Azure CLI was told stands far behind.

    >>> sign_in_again("Attempted credentials: …\\n\\tAzureCliCredential: AADSTS70043: …")
    'your sign-in to Azure has expired (AADSTS70043)'
    """
    text = str(error)
    if found := _EXPIRED.search(text):
        return f"your sign-in to Azure has expired ({found[0]})"
    if found := _MORE_ASKED.search(text):
        return f"your organization requires more before it signs you in ({found[0]})"
    return ""


def how_to_sign_in(error: object, usual: str = "az login") -> str:
    """What to do where nobody is signed in: what is `usual`, and before it the Azure CLI where the
    SDK did not find it.

    >>> how_to_sign_in("\\tAzureCliCredential: Please run 'az login'")
    'az login'
    """
    return f"{_INSTALL_CLI}\n{usual}" if "Azure CLI not found" in str(error) else usual


def why_not_signed_in(error: object) -> str:
    """What matters of the SDK's account of all the ways in that it has tried: what Microsoft Entra
    ID answered to one of them, or else what the Azure CLI said.

    >>> why_not_signed_in("Attempted credentials: …\\n\\tAzureCliCredential: Please run 'az login'")
    "Please run 'az login'"
    """
    lines = str(error).strip().splitlines() or ["no reason was given"]
    for sign in ("AADSTS", "AzureCliCredential: "):
        if found := next((line.strip() for line in lines if sign in line), ""):
            return found.partition("Credential: ")[2][:300] or found[:300]
    return lines[0][:300]
