"""Configuration of an AKS cluster: manifests in a container, and Flux, which applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm import kubernetes_flux_configuration as flux
from fairway_constructs.azurerm.kubernetes_cluster_extension import KubernetesClusterExtension
from fairway_constructs.azurerm.storage_blob import StorageBlob
from fairway_constructs.cdk import Component
from fairway_constructs.identity import Identity
from fairway_constructs.researchers import assign_user_role
from fairway_constructs.storage import private_container
from fairway_constructs.terraform_data import escape_template, md5_of
from fairway_core.environment.access import DEPLOYER
from fairway_core.kubernetes.flux import NAMESPACE, kustomizations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.azurerm.storage_container import StorageContainer
    from fairway_constructs.cdk import Construct
    from fairway_constructs.clusters.kubernetes.cluster import KubernetesCluster
    from fairway_constructs.registry import IRegistry
    from fairway_constructs.storage import IStorage

# Flux's interval, in seconds, for reading the container and reverting others' changes.
_EVERY = 600
# The images of drivers have many GiB, and each node builds some drivers.
_TIMEOUT = 1800


class KubernetesSharedState(Component):
    """The manifests' container and the nodes' identity, which outlive a Kubernetes cluster.

    Writing the manifests amounts to administering the cluster: only the deployer may, and the
    nodes, whose identity is `kubelet`, read them for Flux. Nodes pull images from `registry`. With
    `protect` Terraform does not delete the container.

    >>> shared_state = KubernetesSharedState(stack, storage=storage,
    ...                                      name="manifests")
    >>> shared_state.kubelet.client_id, shared_state.container.url
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "kubernetes-foundation",
        *,
        storage: IStorage,
        name: str,
        registry: IRegistry | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.container = private_container(self, f"container-{name}", name, storage.id)
        self.kubelet = Identity(self, "kubelet")
        if registry is not None:
            registry.grant_pull(self.kubelet)
        self.kubelet.grant(
            "reads_configuration",
            "Storage Blob Data Reader",
            on=self.container.id,
            reason="Flux reads the manifests of the cluster without a key",
        )
        assign_user_role(
            self,
            "configuration-written",
            on=self.container.id,
            person=DEPLOYER,
            role_name="Storage Blob Data Contributor",
            reason="Terraform writes the manifests of the cluster",
        )


class KubernetesConfiguration(Component):
    """Manifests as blobs, by their paths, and Flux in the cluster, which applies them in order.

    Flux reads the container of the shared state with the nodes' identity. It deletes nothing:
    otherwise objects would be gone for a moment, while Terraform replaces their blob.

    >>> KubernetesConfiguration(stack, cluster=cluster, container=shared_state.container,
    ...                         manifests={"jobs/namespace.yaml": "…"})
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "kubernetes-configuration",
        *,
        cluster: KubernetesCluster,
        container: StorageContainer,
        manifests: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        self.container = container
        blobs = [self._blob(path, text, cluster) for path, text in manifests.items()]
        extension = KubernetesClusterExtension(
            self, "flux", name="flux", cluster_id=cluster.id, extension_type="microsoft.flux"
        )
        self.flux = flux.KubernetesFluxConfiguration(
            self,
            "kubernetes-configuration",
            name="fairway",
            cluster_id=cluster.id,
            namespace=NAMESPACE,
            scope_="cluster",
            blob_storage=flux.BlobStorage(
                # The provider expects the address here, not the id.
                container_id=self.container.url,
                managed_identity=flux.BlobStorageManagedIdentity(
                    client_id=cluster.kubelet.client_id
                ),
                sync_interval_in_seconds=_EVERY,
            ),
            kustomizations=[
                flux.Kustomizations(
                    name=name,
                    path=path,
                    depends_on=list(after) or None,
                    wait=True,
                    garbage_collection_enabled=False,
                    sync_interval_in_seconds=_EVERY,
                    retry_interval_in_seconds=_EVERY,
                    timeout_in_seconds=_TIMEOUT,
                )
                for name, path, after in kustomizations(manifests)
            ],
            depends_on=[extension, *blobs],
        )

    def _blob(self, path: str, text: str, cluster: KubernetesCluster) -> StorageBlob:
        name = path.rpartition("/")[2].removesuffix(".yaml")
        return StorageBlob(
            self,
            f"manifests-{name}",
            name=path,
            storage_container_id=self.container.id,
            type="Block",
            content_type="application/yaml",
            source_content=escape_template(text),
            # The service fills one in if none is sent, and the provider would then replace the blob
            # at every plan.
            content_md5=md5_of(text),
            # A role takes minutes to propagate, and so does the creation of the cluster.
            depends_on=[cluster.cluster],
        )
