"""Resource azurerm_monitor_action_group of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairway_constructs.bindings.attributes import BooleanAttribute, MapAttribute, StringAttribute
from fairway_constructs.bindings.blocks import Block, Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ArmRoleReceiver(Block):
    """The block `arm_role_receiver`."""

    name: str
    role_id: str
    use_common_alert_schema: bool | None = None


class AutomationRunbookReceiver(Block):
    """The block `automation_runbook_receiver`."""

    automation_account_id: str
    is_global_runbook: bool
    name: str
    runbook_name: str
    service_uri: str
    webhook_resource_id: str
    use_common_alert_schema: bool | None = None


class AzureAppPushReceiver(Block):
    """The block `azure_app_push_receiver`."""

    email_address: str
    name: str


class AzureFunctionReceiver(Block):
    """The block `azure_function_receiver`."""

    function_app_resource_id: str
    function_name: str
    http_trigger_url: str
    name: str
    use_common_alert_schema: bool | None = None


class EmailReceiver(Block):
    """The block `email_receiver`."""

    email_address: str
    name: str
    use_common_alert_schema: bool | None = None


class EventHubReceiver(Block):
    """The block `event_hub_receiver`."""

    event_hub_name: str
    event_hub_namespace: str
    name: str
    subscription_id: str | None = None
    tenant_id: str | None = None
    use_common_alert_schema: bool | None = None


class ItsmReceiver(Block):
    """The block `itsm_receiver`."""

    connection_id: str
    name: str
    region: str
    ticket_configuration: str
    workspace_id: str


class LogicAppReceiver(Block):
    """The block `logic_app_receiver`."""

    callback_url: str
    name: str
    resource_id: str
    use_common_alert_schema: bool | None = None


class SmsReceiver(Block):
    """The block `sms_receiver`."""

    country_code: str
    name: str
    phone_number: str


class VoiceReceiver(Block):
    """The block `voice_receiver`."""

    country_code: str
    name: str
    phone_number: str


class WebhookReceiverAadAuth(Block):
    """The block `webhook_receiver.aad_auth`."""

    object_id: str
    identifier_uri: str | None = None
    tenant_id: str | None = None


class WebhookReceiver(Block):
    """The block `webhook_receiver`."""

    name: str
    service_uri: str
    use_common_alert_schema: bool | None = None
    aad_auth: WebhookReceiverAadAuth | None = None


class MonitorActionGroup(Resource):
    """The resource azurerm_monitor_action_group."""

    TYPE = "azurerm_monitor_action_group"

    enabled = BooleanAttribute()
    id = StringAttribute()
    location = StringAttribute()
    name = StringAttribute()
    resource_group_name = StringAttribute()
    short_name = StringAttribute()
    tags = MapAttribute()

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        resource_group_name: str,
        short_name: str,
        enabled: bool | None = None,
        location: str | None = None,
        tags: Mapping[str, str] | None = None,
        arm_role_receiver: Sequence[ArmRoleReceiver] | None = None,
        automation_runbook_receiver: Sequence[AutomationRunbookReceiver] | None = None,
        azure_app_push_receiver: Sequence[AzureAppPushReceiver] | None = None,
        azure_function_receiver: Sequence[AzureFunctionReceiver] | None = None,
        email_receiver: Sequence[EmailReceiver] | None = None,
        event_hub_receiver: Sequence[EventHubReceiver] | None = None,
        itsm_receiver: Sequence[ItsmReceiver] | None = None,
        logic_app_receiver: Sequence[LogicAppReceiver] | None = None,
        sms_receiver: Sequence[SmsReceiver] | None = None,
        voice_receiver: Sequence[VoiceReceiver] | None = None,
        webhook_receiver: Sequence[WebhookReceiver] | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "name": name,
                "resource_group_name": resource_group_name,
                "short_name": short_name,
                "enabled": enabled,
                "location": location,
                "tags": tags,
                "arm_role_receiver": arm_role_receiver,
                "automation_runbook_receiver": automation_runbook_receiver,
                "azure_app_push_receiver": azure_app_push_receiver,
                "azure_function_receiver": azure_function_receiver,
                "email_receiver": email_receiver,
                "event_hub_receiver": event_hub_receiver,
                "itsm_receiver": itsm_receiver,
                "logic_app_receiver": logic_app_receiver,
                "sms_receiver": sms_receiver,
                "voice_receiver": voice_receiver,
                "webhook_receiver": webhook_receiver,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )
