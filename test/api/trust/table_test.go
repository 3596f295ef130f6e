// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import "slices"

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

// table has the rows of all kinds.
var table = slices.Concat(kubernetesRows, aliothRows)

// aliothRows are the rows of kinds of Alioth, and of other projects that Alioth reads.
var aliothRows = []row{
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
		of("PolicyIdentity"),
		of("spec"),
		"the decision: which labels a number stands for; nothing goes by it yet",
		"only the operator creates it, CEL fixes it",
		"TestPolicyIdentity_WriterNotOperator_Refused",
	},
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
	"AttachmentClaim spec.interfaces[*]":                                       {"net1"},
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
