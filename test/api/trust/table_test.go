// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

// row describes the trust of the product in fields. It is written by hand; the writers of the
// fields are computed.
type row struct {
	// kinds are names of kinds, * for all. fields are paths. In a path, [...] stands for any
	// elements or keys; a path stands for all below it, too. A field belongs to the row with the
	// longest path.
	kinds, fields []string
	// believed is the effect of the field on the product, check the protection before that.
	believed, check string
	// test is a test that attacks. A row needs it if a writer of the field is not trusted on its
	// word alone.
	test string
}

// of makes a list of words; the table would be twice as long with lists.
func of(words ...string) []string { return words }

var everyNetwork = of("DanmNet", "TenantNetwork", "ClusterNetwork")

var table = []row{
	// Metadata that code for all kinds reads.
	{
		of("*"),
		of("metadata.finalizers"),
		"that the finalizer of Alioth is there",
		"the controller adds it again while the object is needed",
		"TestNetworkStatusAndFinalizer_WriterNotOperator_Refused",
	},
	{
		of("Network"),
		of("metadata.finalizers"),
		"that the finalizer of Alioth is there, which keeps the Network while pods are attached",
		"admission refuses its removal to all but the operator; at creation it is what the operator would add",
		"TestVPCNetworkStatus_WriterNotOperator_Refused",
	},
	{
		of("Pod", "Service", "Endpoints", "EndpointSlice", "NetworkAttachmentDefinition", "Node"),
		of("metadata.finalizers"),
		"nothing: a common function copies into each row whether the finalizer of Alioth is there, and only rows of AttachmentClaims are asked",
		"these kinds have no finalizer of Alioth",
		"TestPodFields_CopiedFromOtherPod_GiveNothing",
	},
	{
		of("*"),
		of("metadata.ownerReferences"),
		"which object it belongs to, if the owner has the UID",
		"a reference alone gives nothing: the UID is compared with the living owner's UID",
		"TestConvertConfig_Owner_UIDTaken",
	},
	{
		of("NodeNetworkConfigurationEnactment", "NodeNetworkState"),
		of("status.conditions[*]"),
		"what the daemon reports of its node; it counts for the roll-out and for people",
		"admission: the daemon of the node that the name and the label have",
		"TestDaemonEnactment_OtherNode_Refused",
	},
	{
		of("*"),
		of("status.conditions[*]"),
		"output; compared to skip writes, and counted in metrics",
		"computed again by every pass of the controller",
		"TestNetworkStatusAndFinalizer_WriterNotOperator_Refused",
	},

	// Pods.
	{
		of("Pod"),
		of("metadata.labels[*]"),
		"that selectors of Services and policies mean the pod",
		"an endpoint counts only where the pod holds the address",
		"TestService_EndpointOfOtherTenant_LeadsNowhere",
	},
	{
		of("Pod"),
		of(
			"metadata.labels[arktos.futurewei.com/network]",
			"metadata.annotations[arktos.futurewei.com/nic]",
			"metadata.annotations[danm.k8s.io/interfaces]",
			"metadata.annotations[danm.io/interfaces]",
			"metadata.annotations[k8s.v1.cni.cncf.io/networks]",
			"metadata.annotations[v1.multus-cni.io/default-network]",
		),
		"a wish: which networks, subnet and IP",
		"tenancy, ranges, reservations and claims; fixed once the pod has a node",
		"TestTenant_NetworkLabelMissing_StaysOutsideDefaultVPC",
	},
	{
		of("Pod"),
		of("metadata.annotations[alioth.dev/attachments]", "metadata.annotations[arktos.futurewei.com/network-readiness]"),
		"output; compared with Addresses and AttachmentClaims, and a hint at the IPs that the pod asks for again",
		"what no object of the pod confirms is replaced, and the pod is decided as a new one; a node takes interfaces from Addresses and AttachmentClaims, and reads the annotation where an operator of release 0.1 has written them",
		"TestPodStatus_HandWritten_GivesNoAddress",
	},
	{
		of("Pod"),
		of("metadata.annotations[*]"),
		"how many bytes all annotations have, so that the pod has room for its addresses",
		"a pod without room is told so, and delays no other",
		"TestPod_AnnotationsFull_RefusedWithReason",
	},
	{
		of("Pod"),
		of("metadata.annotations[kubernetes.io/config.mirror]"),
		"which static pod of its node the object is the mirror of",
		"namespace and name have to be the static pod's, and its addresses the object's",
		"TestDecision_StaticPod_FoundByMirrorPod",
	},
	{
		of("Pod"),
		of("metadata.annotations[k8s.v1.cni.cncf.io/network-status]"),
		"output; compared to skip writes",
		"the daemon writes it again",
		"TestDaemonPodWrite_OtherAnnotationOrNode_Refused",
	},
	{
		of("Pod"),
		of("metadata.ownerReferences"),
		"that two pods have one owner, for the words of a refusal",
		"the claim of the address decides; no address is given by an owner",
		"TestPodFields_CopiedFromOtherPod_GiveNothing",
	},
	{
		of("Pod"),
		of("spec.nodeName"),
		"the node of the pod",
		"an Address counts on the node that it names; the API server fixes it",
		"TestAttachment_ForgedAnnotation_NotCarriedOut",
	},
	{of("Pod"), of("spec.hostNetwork"), "that the pod needs no address", "admission, by HostAccess objects", "TestHostAccess_TenantWithoutGrant_Refused"},
	{
		of("Pod"),
		of("spec.containers[*].ports[*]"),
		"hostPort of the node; names of ports of Services",
		"admission and every plan compare hostPort with HostAccess objects",
		"TestTenantPorts_NodeOrNodePorts_NotTaken",
	},
	{
		of("Pod"),
		of("spec.containers[*].livenessProbe", "spec.containers[*].readinessProbe", "spec.containers[*].startupProbe", "spec.containers[*].lifecycle"),
		"which probes cross the network, and how long they last",
		"admission refuses a host other than the pod",
		"TestProbesAndHooks_OtherHost_Refused",
	},
	{
		of("Pod"),
		of("spec.containers[*].restartPolicy", "spec.containers[*].resources.limits[*]"),
		"how many devices the pod requests of the kubelet",
		"the kubelet and the pod resources API name the devices",
		"TestDeviceRequest_OtherPodsDevice_NotTaken",
	},
	{
		of("Pod"),
		of("spec.affinity", "spec.containers[*].args[*]", "spec.nodeSelector[*]", "status.containerStatuses[*]", "status.message"),
		"of pods of the uninstallation alone, in the namespace of Alioth",
		"a tenant has no rights in that namespace",
		"TestProgramRights_Installed_MatchList",
	},
	{
		of("Pod"),
		of("spec.hostname", "spec.subdomain"),
		"the host name of an endpoint",
		"it is shown in the slice of the pod's own Service, and decides about no address",
		"TestPodFields_CopiedFromOtherPod_GiveNothing",
	},
	{
		of("Pod"),
		of("status.phase"),
		"that a pod has ended, so that its addresses are released",
		"the node releases an address after its own record of the attachment is gone, whatever the status says",
		"TestRelease_PodMayReturn_AddressKept",
	},
	{
		of("Pod"),
		of("status.podIPs[*]"),
		"which IPs a running pod without an allocation status has",
		"they are given only if the pod may have them",
		"TestAttachment_ForgedAnnotation_NotCarriedOut",
	},
	{
		of("Pod"),
		of("status.conditions[*]"),
		"Ready: that an endpoint is ready. alioth.dev/NetworkReady: output, compared to skip writes",
		"an endpoint also needs the Address; admission refuses conditions of Alioth from others, and the decision about the pod is in Addresses and AttachmentClaims",
		"TestPodStatus_HandWritten_GivesNoAddress",
	},
	{
		of("Pod"),
		of("**"),
		"labels, IPs and readiness of the copies that operator/netservice makes of rows",
		"the copies have the addresses of Address objects",
		"TestEndpoints_UndecidedByOperator_None",
	},

	// Nodes and namespaces.
	{
		of("Node"),
		of("metadata.labels[*]", "spec.taints[*]"),
		"which policies of node networks select the node, and whether it is fenced",
		"admission plugin NodeRestriction; a daemon has no right",
		"TestStolenToken_PodOfOtherNode_Unchanged",
	},
	{
		of("Node"),
		of("metadata.labels[alioth.node-restriction.kubernetes.io/role]"),
		"that the node may become a bouncer or divider",
		"NodeRestriction refuses the prefix to kubelets",
		"TestDaemonNodeCondition_OtherNode_Refused",
	},
	{
		of("Node"),
		of(
			"metadata.labels[topology.kubernetes.io/zone]",
			"metadata.labels[node.kubernetes.io/exclude-from-external-load-balancers]",
			"metadata.labels[kubernetes.azure.com/podnetwork-multi-tenancy-enabled]",
		),
		"hints: the zone of its endpoints, that it announces no addresses, that pods get configs there",
		"they concern pods of the node and its own share of announcements: a node that announces an address keeps it",
		"TestAnnouncer_KubeletForgesNodeFields_NoneTaken",
	},
	{
		of("Node"),
		of("status.addresses[*]"),
		"the ends of tunnels between nodes; that no VPC's egress leads there",
		"of two nodes with one address the older has it; 64 addresses of a node count; ranges in use of the default VPC and of external addresses stay; addresses outside of the cluster are the word of the kubelet, see record 013",
		"TestPlan_NodeInDefaultVPC_RangeKept",
	},
	{
		of("Node"),
		of("status.daemonEndpoints"),
		"the kubelet's port, which tells probes from other packets",
		"each node reads the port of its own Node alone",
		"TestPlan_HostileRow_OthersUnchanged",
	},
	{
		of("Node"),
		of("status.allocatable[*]"),
		"how many pods it takes, which bounds the VNIs of its reply",
		"at most 1024 count",
		"TestVNIs_NodeHoldsEverything_BoundedByPods",
	},
	{
		of("Node"),
		of("status.conditions[*]"),
		"Ready: that a node answers. Conditions of Alioth are compared to skip writes, and addresses of pods that are gone stay while the daemon of the node has one",
		"addresses and VNIs of a node stay until it answers or is fenced; a term waits for a silent node for 10 s at most",
		"TestNodeConditions_Forged_NothingReleased",
	},
	{
		of("Namespace"),
		of("metadata.labels[alioth.dev/tenant]"),
		"the tenant",
		"the verb assign on tenants.alioth.dev",
		"TestTenantLabel_WithoutAssignRight_Refused",
	},
	{
		of("Namespace"),
		of("metadata.labels[pod-security.kubernetes.io/enforce]"),
		"that the condition Isolated of the tenant's Networks is True",
		"it is for people alone; whoever may label the namespace decides what its pods may do",
		"TestTenantMount_NodeFolder_Refused",
	},

	// Services.
	{
		of("Service"),
		of("metadata.labels[*]", "metadata.labels[arktos.futurewei.com/network]"),
		"a wish: the Network of the Service",
		"the Network is of its namespace, and the VPC allows its tenant",
		"TestService_ForgedNetworkLabel_Refused",
	},
	{
		of("Service"),
		of("metadata.labels[service.kubernetes.io/service-proxy-name]"),
		"that Alioth does not serve it",
		"it takes away from its owner alone",
		"TestService_MovesToOtherProxy_TakesNoAddress",
	},
	{
		of("Service"),
		of("metadata.annotations[*]"),
		"wishes: pool, addresses, selected networks and pods, endpoints that are not ready",
		"claims, ExternalPools, and the networks that its namespace may use",
		"TestService_ForgedNetworkLabel_Refused",
	},
	{
		of("Service"),
		of("spec.clusterIPs[*]", "spec.ipFamilies[*]"),
		"addresses of the Service in its VPC",
		"the API server allots them; they exist in that VPC alone",
		"TestService_EndpointOfOtherTenant_LeadsNowhere",
	},
	{
		of("Service"),
		of("spec.externalIPs[*]"),
		"addresses outside",
		"admission and each plan compare them with ExternalPools",
		"TestExternalIPs_NoPoolGrant_Refused",
	},
	{
		of("Service"),
		of(
			"spec.loadBalancerClass",
			"spec.loadBalancerIP",
			"spec.loadBalancerSourceRanges[*]",
			"spec.externalTrafficPolicy",
			"spec.healthCheckNodePort",
			"spec.type",
		),
		"wishes for a load balancer and its node ports",
		"claims of the operator; node ports are allotted by the API server",
		"TestTenantPorts_NodeOrNodePorts_NotTaken",
	},
	{
		of("Service"),
		of("spec.internalTrafficPolicy", "spec.ports[*]", "spec.publishNotReadyAddresses", "spec.selector[*]", "spec.sessionAffinity", "spec.sessionAffinityConfig"),
		"how the Service leads to its own backends",
		"a backend counts only if the right pod of the VPC holds its address",
		"TestService_EndpointOfOtherTenant_LeadsNowhere",
	},
	{
		of("Service"),
		of("status.loadBalancer"),
		"output; compared to skip writes",
		"addresses of load balancers come from claims with the UID of the Service; a forged status is replaced",
		"TestServiceStatus_Forged_NoAddressGiven",
	},
	{
		of("Service"),
		of("**"),
		"ports and families, by the library that makes slices",
		"the slices are of the namespace of the Service",
		"TestService_ForgedNetworkLabel_Refused",
	},
	{
		of("EndpointSlice"),
		of("endpoints[*]", "ports[*]", "metadata.labels[kubernetes.io/service-name]"),
		"candidates for backends of a Service of the namespace",
		"an Address of the VPC has to name the pod that holds the address",
		"TestForgedSlice_NodePort_OpensNothing",
	},
	{
		of("EndpointSlice"),
		of("metadata.labels[alioth.dev/domain]", "metadata.labels[endpointslice.kubernetes.io/managed-by]"),
		"that the slice is the operator's, and its domain",
		"admission refuses the label to others; each node checks pods and networks itself",
		"TestSliceDomain_WriterNotOperator_Refused",
	},
	{
		of("EndpointSlice"),
		of("**"),
		"which slices of its own the operator has to change",
		"the library compares them with the wanted ones",
		"TestSliceDomain_WriterNotOperator_Refused",
	},
	{
		of("Endpoints"),
		of("metadata.annotations[*]", "metadata.labels[*]", "metadata.ownerReferences", "subsets[*]", "**"),
		"whether they are the operator's; compared with the wanted ones to skip writes",
		"nodes read no Endpoints, and the operator changes those alone that its Service owns by UID",
		"TestEndpoints_Forged_ServiceUnchanged",
	},
	{of("ServiceCIDR"), of("spec.cidrs[*]"), "ranges of ClusterIPs, which VPCs avoid", "administrators write it", ""},
	{of("Lease"), of("spec"), "which replica leads", "a right on the Lease of this name in the namespace of Alioth", "TestProgramRights_Installed_MatchList"},
	{
		of("Lease"),
		of("metadata.annotations[alioth.dev/state-format]"),
		"the highest format of the state of all releases that have led; an operator of a lower one does not lead",
		"a right on the Lease of this name in the namespace of Alioth",
		"TestLease_NewerRelease_NeverHeld",
	},
	{
		of("DaemonSet"),
		of("spec", "metadata", "**"),
		"of the daemon itself, while Alioth is uninstalled",
		"a tenant has no rights in the namespace of Alioth",
		"TestProgramRights_Installed_MatchList",
	},

	// VPCs and claims.
	{of("VPC"), of("spec"), "ranges, permitted tenants, egress, VNI", "administrators write it, checked by CEL and admission", ""},
	{of("VPC"), of("status"), "the VNI and the revision of its members", "the operator writes it; each number has a VNIClaim with the UID", ""},
	{of("Subnet"), of("spec"), "ranges, gateways, reservations", "administrators write it, checked by CEL and admission", ""},
	{of("Subnet"), of("status.cursors"), "where the search for free addresses starts", "it is a hint: creation of the claim decides", ""},
	{
		of("Usage"),
		of("spec", "status", "**"),
		"where the search for free addresses starts; compared to skip writes",
		"it is a hint: creation of the claim decides",
		"",
	},
	{
		of("Network"),
		of("spec"),
		"a wish: the VPC of the Network",
		"spec.allowedTenants of the VPC has the tenant of the namespace",
		"TestTenant_NetworkLabelMissing_StaysOutsideDefaultVPC",
	},
	{
		of("Network"),
		of("status.conditions[*]"),
		"output; the operator counts reason and readiness in metrics, and repeats new reasons and messages as events",
		"admission refuses the status to all but the operator",
		"TestVPCNetworkStatus_WriterNotOperator_Refused",
	},
	{
		of("Address"),
		of("spec"),
		"the decision: which pod on which node has an address",
		"only the operator creates it and changes spec.config and spec.interfaces, CEL fixes the rest; it counts if the pod agrees in UID, name and node",
		"TestDaemonAddressCreation_AnyRole_Refused",
	},
	{of("VNIClaim"), of("spec"), "the decision: which VPC has a VNI", "only the operator creates it, CEL fixes it", ""},
	{
		of("ExternalPool", "HostAccess", "SharedService", "DelegationGrant"),
		of("spec"),
		"what tenants are permitted",
		"administrators write it, checked by CEL",
		"",
	},
	{
		of("ExternalAddress"),
		of("spec", "status"),
		"the decision: which Service has an address, and the node that announces it",
		"only the operator writes it; it counts with the UID of the Service",
		"",
	},
	{
		of("AdmissionGrants"),
		of("externalIPs", "hostAccess", "tenantNetworks", "**"),
		"output: parameters of admission; compared to skip writes",
		"admission refuses all writers but the operator",
		"TestAdmissionGrants_WriterNotOperator_Refused",
	},

	// Reports of nodes.
	{
		of("RollCall"),
		of("spec"),
		"which call the node answers, and the VNIs that it holds",
		"its own node's object; at most as many VNIs as pods; new VNIs of no node are refused",
		"TestVNIs_NodeHoldsEverything_BoundedByPods",
	},
	{
		of("RollCall", "NodeRoles", "HostLinkReport"),
		of("metadata.ownerReferences"),
		"which Node object it is of",
		"admission: the daemon of that node; the UID is compared with the living Node",
		"TestDaemonRollCall_OtherNode_Refused",
	},
	{
		of("NodeRoles"),
		of("spec", "**"),
		"which members the node lists",
		"its own node's object; it delays others for a minute at most",
		"TestNodeReport_Hostile_OthersNotHastened",
	},
	{
		of("HostLinkReport"),
		of("spec"),
		"failures of links, for conditions and events; source addresses of the node's VXLAN packets, which other nodes accept; NetworkIDs with files, for conditions",
		"its own node's object; texts are bounded; an address of another Node object does not count",
		"TestDaemonLinkReport_OtherNodeOrOversized_Refused",
	},
	{of("RoleMember"), of("spec"), "which node plays a role", "only the operator writes it", "TestRoleMemberReport_OtherFields_Unchanged"},
	{
		of("RoleMember"),
		of("status.complete"),
		"that the tables of the member are complete",
		"admission: the daemon of the member's own node",
		"TestDaemonRoleMember_OtherNode_Refused",
	},
	{of("ScaledEndpoint"), of("spec", "**"), "who the backends of a Service are, for nodes that follow no Services", "only the operator has a right", ""},

	// Networks outside of VPCs.
	{
		of("AttachmentClaim"),
		of("spec"),
		"the decision: the network of an interface",
		"only the operator creates it and writes its spec, which CEL fixes but for spec.interfaces; it counts with the pod's UID and node, addresses need their Address, plugins a DelegationGrant",
		"TestNetworkClaims_CreatorNotOperator_Refused",
	},
	{
		of("AttachmentClaim"),
		of("status.released"),
		"that the interface is gone",
		"admission: the daemon of the claim's node, after the deletion",
		"TestInterfaceRelease_NotPodNode_Refused",
	},
	{
		of("DomainClaim", "HostVNIClaim", "HostLink"),
		of("spec"),
		"the decision: numbers and links of networks",
		"only the operator creates it",
		"TestNetworkClaims_CreatorNotOperator_Refused",
	},
	{
		everyNetwork,
		of("spec", "metadata.annotations[alioth.dev/macvlan-mode]", "metadata.annotations[alioth.dev/sriov]"),
		"a network: its device, numbers, ranges and routes",
		"a TenantConfig for TenantNetworks, the verb use for DanmNets of tenants, administrators for ClusterNetworks",
		"TestTenantNetworks_NodeDevices_NotGiven",
	},
	{
		everyNetwork,
		of("status.profile"),
		"device, number and NetworkID of a TenantNetwork; of other kinds nothing",
		"admission refuses the status to all but the operator",
		"TestNetworkStatusAndFinalizer_WriterNotOperator_Refused",
	},
	{
		everyNetwork,
		of("status.conditions[*]"),
		"output, that the network is in conflict, and that its present specification was examined",
		"admission refuses the status to all but the operator",
		"TestNetworkStatusAndFinalizer_WriterNotOperator_Refused",
	},
	{
		of("TenantConfig"),
		of("hostDevices", "networkIds", "metadata.annotations"),
		"devices and numbers that TenantNetworks get",
		"administrators write it, checked by CEL and admission",
		"",
	},
	{
		of("NetworkAttachmentDefinition"),
		of("spec.config", "metadata.annotations"),
		"the configuration of another CNI plugin, or a network of Alioth",
		"a DelegationGrant has to permit namespace, plugin and settings; pods of other tenants use it by a grant or a global namespace alone, and never plugins of a tenant",
		"TestTenantNetworks_NodeDevices_NotGiven",
	},

	// Networks of nodes.
	{
		of("NodeNetworkConfigurationPolicy", "NodeNetConfPolicy"),
		of("spec", "**"),
		"what networks of nodes shall be",
		"cluster administrators alone have a right",
		"",
	},
	{
		of("NodeNetworkConfigurationPolicy", "NodeNetConfPolicy"),
		of("status"),
		"output, that too many nodes failed, and which node had the last slot",
		"admission refuses the status to all but the operator",
		"",
	},
	{
		of("NodeNetworkConfigurationEnactment"),
		of("status", "**"),
		"the part of a policy that the node has, the state before, and whether it failed",
		"admission: the daemon of the node that the name and the label have. A failure counts once, and only after a slot",
		"TestRollout_HostileNode_OthersContinue",
	},
	{
		of("NodeNetworkConfigurationEnactment"),
		of("status.slot"),
		"the permission to change",
		"admission: the operator alone",
		"TestSlotsAndPolicyStatus_WriterNotOperator_Refused",
	},
	{
		of("NodeNetworkState"),
		of("spec", "status", "**", "metadata.annotations"),
		"what the network of the node shall be, and is",
		"admission: the daemon of that node, and cluster administrators",
		"TestDaemonNetworkState_OtherNode_Refused",
	},

	// The node IPAM API.
	{
		of("PodNetwork"),
		of("spec", "status", "**"),
		"the VPC and the subnet that pods of other CNI plugins get",
		"administrators and those with the role for it",
		"TestTenantServiceAccount_PodNetworkWrite_Refused",
	},
	{
		of("PodNetworkInstance"),
		of("spec"),
		"a wish: which PodNetworks, and how many addresses are reserved",
		"allowedTenants of the VPC; the limit of the PodNetwork",
		"TestNodeIPAM_HostileTenant_GetsNothing",
	},
	{
		of("PodNetworkInstance"),
		of("status"),
		"which addresses are reserved, and that the instance is ready",
		"admission refuses the status to all but the operator",
		"TestReservation_WriterNotOperator_Refused",
	},
	{
		of("MultitenantPodNetworkConfig", "MultiTenantPodNetworkConfig"),
		of("spec", "status", "metadata.ownerReferences", "**"),
		"output; compared with the wanted one",
		"admission refuses all writers but the operator",
		"TestPodConfig_WriterNotOperator_Refused",
	},
	{
		of("NodeInfo"),
		of("spec", "status", "**"),
		"the name of the machine, and devices that it offers",
		"admission: the daemon of that node",
		"TestDaemonNodeInfo_OtherNode_Refused",
	},
}

// probes are values to try first, for fields whose next valid value can't be guessed.
var probes = map[string][]any{
	"Node status.conditions[*].lastTransitionTime":                             {"2026-01-01T00:00:00Z"},
	"NodeInfo status.deviceInfos[*].deviceType":                                {"acn.azure.com/infiniband-nic"},
	"PodNetwork status.status":                                                 {"InUse"},
	"PodNetworkInstance status.status":                                         {"PodNetworkNotReady"},
	"MultitenantPodNetworkConfig status.status":                                {"Pending"},
	"MultiTenantPodNetworkConfig status.status":                                {"provisioned"},
	"AttachmentClaim status.released":                                          {true},
	"NodeNetworkConfigurationEnactment status.policy.kind":                     {"NodeNetConfPolicy"},
	"NodeNetworkConfigurationEnactment status.capturedStates[*].metaInfo.time": {"2026-01-02T00:00:00Z"},
	"NodeNetworkConfigurationEnactment status.desiredStateMetaInfo.time":       {"2026-01-02T00:00:00Z"},
	"NodeNetworkConfigurationEnactment status.slot.expires":                    {"2026-01-02T00:00:00.000000Z"},
}

// owners is a list to try for every kind.
var owners = []any{[]any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "2"}}}

// finalizers has an empty list, and a list without the finalizer of Alioth. Removal is of interest
// where the sample has the finalizer of Alioth: it ends what keeps the object.
var finalizers = []any{[]any{}, []any{"example.com/held"}}

// probesOf returns the values to try first for a field.
func probesOf(kind, path string) []any {
	switch path {
	case "metadata.ownerReferences":
		return owners
	case "metadata.finalizers":
		return finalizers
	}
	return probes[kind+" "+path]
}

// alike are fields that have to have the same value.
var alike = map[string]string{"Pod status.podIPs[*].ip": "status.podIP"}
