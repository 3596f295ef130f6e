// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

// Folders of tests that many reports name.
const (
	inE2E      = "test/e2e "
	ofServices = inE2E + "TestServices_SocketsAndPackets_BehaveAlike/"
	inVPCs     = inE2E + "TestVPCService_ClientPods_OwnPodsAnswer/"
)

// Reports whose right value a test elsewhere has.
var (
	_ = kept(Report{
		Name: "udp-to-several-services", Source: trial("services/udp-two-services"), Kind: sockets,
		Input: "One UDP socket asks two Services, or a Service and a pod, that lead to one pod.",
		Want:  "Each reply comes from the address that was asked.", Test: inVPCs + "one socket of ",
	})
	_ = kept(Report{
		Name: "port-that-a-service-lacks", Source: trial("services/undefined-port"), Kind: refusals,
		Input: "A client asks a ClusterIP at a port or protocol that the Service does not have.",
		Want:  "The client is refused at once.", Test: inVPCs + "ports that a service lacks are refused to ",
	})
	_ = kept(Report{
		Name: "non-service-port", Source: "kubernetes/kubernetes#22952", Kind: refusals,
		Input: "A packet comes for a ClusterIP, but for none of its ports.",
		Want:  "TCP is reset, and UDP gets an ICMP port unreachable.", Test: "ebpf/datapath/test/traffic TestService_UnknownPort_RefusedAtOnce",
	})
	_ = kept(Report{
		Name: "service-without-backends", Source: "cilium/cilium#28157", Kind: refusals,
		Input: "A client asks a Service that has no backend.",
		Want:  "The client is refused at once, at the socket and in packets.", Test: ofServices + "nobody there",
	})
	_ = kept(Report{
		Name: "one-udp-socket-for-ever", Source: "kubernetes/kubernetes#19029", Kind: udpFlows,
		Input: "A client sends over one UDP socket for a long time. The backend of its Service is replaced.",
		Want:  "The datagrams go to the present backend.", Test: ofServices + "a backend without the label",
	})
	_ = kept(Report{
		Name: "udp-backend-terminates", Source: "cilium/cilium#24128", Kind: ending,
		Input: "A backend of a UDP Service is terminating for a long time, beside a ready one.",
		Want:  "Known UDP flows go to the ready backend before the pod is gone.", Test: ofServices + "a backend that is deleted",
	})
	_ = kept(Report{
		Name: "affinity-of-several-ports", Source: "kubernetes/kubernetes#103000", Kind: affinity,
		Input: "A Service with ClientIP affinity has several ports.",
		Want:  "A client keeps its backend at each port. The backends of two ports may differ.", Test: ofServices + "session affinity",
	})
	_ = kept(Report{
		Name: "affinity-timeout-of-a-service", Source: "kubeovn/kube-ovn#7364", Kind: affinity,
		Input: "A Service sets a short timeout of its affinity.",
		Want:  "After that time another backend may answer the client.", Test: ofServices + "session affinity",
	})
	_ = kept(Report{
		Name: "no-affinity", Source: "kubeovn/kube-ovn#5479", Kind: affinity,
		Input: "One client opens many connections to a Service without affinity.",
		Want:  "Several backends answer.", Test: ofServices + "from one backend to five",
	})
	_ = kept(Report{
		Name: "local-in-the-cluster", Source: "kubeovn/kube-ovn#7364", Kind: endpoints,
		Input: "A Service with internalTrafficPolicy Local has no endpoint on the client's node.",
		Want:  "The client is refused. Clients beside an endpoint get that one.", Test: ofServices + "internalTrafficPolicy Local",
	})
	_ = kept(Report{
		Name: "named-udp-port", Source: "kubernetes/kubernetes#84160", Kind: endpoints,
		Input: "A Service names the target port of UDP, and pods have it under different numbers.",
		Want:  "Datagrams reach each pod at its own number.", Test: ofServices + "ports",
	})
	_ = kept(Report{
		Name: "one-number-two-protocols", Source: "cilium/cilium#9207", Kind: endpoints,
		Input: "A Service has TCP and UDP at one number.",
		Want:  "Each protocol leads to its own target port.", Test: ofServices + "ports",
	})
	_ = kept(Report{
		Name: "hairpin-ipv6-in-packets", Source: "cilium/cilium#35371", Kind: hairpin,
		Input: "A pod asks itself by its Service over IPv6, where packets are translated.",
		Want:  "The pod answers itself.", Test: ofServices + "a pod that asks itself",
	})
	_ = kept(Report{
		Name: "udp-to-hosts", Source: "kubernetes/kubernetes#95565", Kind: endpoints,
		Input: "A pod asks a UDP Service whose backend is on the network of the pod's own node.",
		Want:  "The reply comes from the Service.", Test: inE2E + "TestDefaultVPC_HostPods_BackendsAndClients",
	})
	_ = kept(Report{
		Name: "mapped-addresses", Source: "cilium/cilium#9923", Kind: sockets,
		Input: "A socket for IPv6 connects to the mapped form of an IPv4 ClusterIP.",
		Want:  "A backend answers, and the peer is the ClusterIP.", Test: "ebpf/datapath/test/traffic TestSocket_MappedServiceAddress_Translated",
	})
	_ = kept(Report{
		Name: "quote-in-an-icmp-error", Source: "cilium/cilium#47755", Kind: bigPackets,
		Input: "A router says that a packet of a flow to a ClusterIP is too big.",
		Want:  "The client reads the error as one about its flow to the ClusterIP.", Test: "ebpf/datapath/test/verdicts TestICMPError_ServiceFlow_FindsFlow",
	})
	_ = kept(Report{
		Name: "source-ranges", Source: "cilium/cilium#34903", Kind: balancers,
		Input: "A load balancer has loadBalancerSourceRanges, and a host outside of them asks.",
		Want:  "The host gets no answer, and the hosts in the ranges do.", Test: inE2E + "TestExternalAddress_ClientOnNodeNetwork_ReachesVPC/source ranges",
	})
	_ = kept(Report{
		Name: "gateway-is-broadcast", Source: trial("values/gateway-is-broadcast"), Kind: values,
		Input: "The gateway of a Subnet is its broadcast address.",
		Want:  "The API server refuses it, with the field and the remedy.", Test: "test/api/schema TestField_WrongValueBesideValid_RefusedByName",
	})
	_ = kept(Report{
		Name: "reserved-with-host-bits", Source: trial("values/reserved-with-host-bits"), Kind: values,
		Input: "A reserved range of a Subnet has host bits.",
		Want:  "The API server refuses it.", Test: "test/api/schema TestField_WrongValueBesideValid_RefusedByName",
	})
	_ = kept(Report{
		Name: "chart-values", Source: trial("values/chart"), Kind: values,
		Input: "Values of the chart can't work alone or together: ports in hosts, equal ports, host bits.",
		Want:  "helm refuses them.", Test: "test/api/chart TestChartValue_Wrong_Refused",
	})
	_ = kept(Report{
		Name: "static-twice", Source: trial("danm/static-twice"), Kind: danm,
		Input: "A TenantNetwork of a static type is applied again and again.",
		Want:  "Nothing changes, and the network stays Ready.", Test: "operator TestManifest_WrittenAgain_NothingChanges",
	})
	_ = kept(Report{
		Name: "static-routes", Source: trial("danm/static-options"), Kind: danm,
		Input: "A network of a static type has routes, and the IPAM of the plugin file gives the addresses. A pod adds policy routes.",
		Want:  "The pod has the routes, each in its table.", Test: "operator/interfaces TestStaticType_Routes_AsOwnDrivers",
	})
	_ = kept(Report{
		Name: "static-without-address", Source: trial("danm/static-options"), Kind: danm,
		Input: "A pod asks for no address of a network of a static type.",
		Want:  "The pod gets none.", Test: "operator/interfaces TestStaticType_AddressRequest_IPAMOrFile",
	})
	_ = kept(Report{
		Name: "static-errors", Source: trial("danm/static-options"), Kind: danm,
		Input: "Two of three interfaces of a pod fail.",
		Want:  "The message has both errors.", Test: "cnid/cni/attachment TestAttach_SeveralFailures_AllReported",
	})
	_ = kept(Report{
		Name: "ips-without-capability", Source: trial("definitions/ips-without-capability"), Kind: selections,
		Input: "A selection has ips, and the definition does not have the capability.",
		Want:  "The pod starts, the plugin gets what it can take, and an event names the rest.", Test: "operator/interfaces TestPluginRequests_NoCapability_LeftOutWithEvent",
	})
	_ = kept(Report{
		Name: "other-namespace", Source: trial("definitions/other-namespace"), Kind: selections,
		Input: "A pod selects a definition of another namespace.",
		Want:  "It gets it where a grant or the chart names that namespace, and nowhere else.", Test: "test/e2e/hostile TestDefinitionOfOthers_WithoutGrant_Refused",
	})
	_ = kept(Report{
		Name: "exported-instance", Source: trial("node-ipam/exported-instance"), Kind: nodeIPAM,
		Input: "A PodNetworkInstance was exported from a cluster whose CRD writes empty texts.",
		Want:  "It is served, and deletable.", Test: "operator TestOperator_ObjectsOfForeignVersions_ServedAndDeletable",
	})
)

// trial names a case that was found when this product was tried as its users would.
func trial(name string) string { return "own trial, " + name }
