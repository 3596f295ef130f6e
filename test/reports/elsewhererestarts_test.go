// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

// Folders of tests that many reports name.
const (
	inFaults   = "test/e2e/faults "
	ofRestarts = inE2E + "TestDaemonRestart_ConnectionsAndPods_Unnoticed/"
	ofUpgrades = "test/e2e/lifecycle TestChart_InstallationToRemoval_NothingLeft/an upgrade changes the CRDs and keeps the objects, pods and connections"
)

// Reports about restarts, full tables and addresses whose right value a test elsewhere has.
var (
	_ = kept(Report{
		Name: "connections-through-a-restart", Source: "cilium/cilium#15878", Kind: restarts,
		Input: "The daemons of all nodes are replaced, while pods have connections to pods on their node and on the other.",
		Want:  "No connection breaks, and of a ping each millisecond at most one packet is lost.", Test: ofRestarts + "connections are kept",
	})
	_ = kept(Report{
		Name: "services-through-a-restart", Source: "cilium/cilium#27215", Kind: restarts,
		Input: "A daemon starts anew while clients open connections to a Service that has not changed.",
		Want:  "No new connection is lost: rows stay until the daemon knows all Services.", Test: ofRestarts + "no connection to the Service is lost",
	})
	_ = kept(Report{
		Name: "definitions-after-an-upgrade", Source: "cilium/cilium#29444", Kind: restarts,
		Input: "The chart is upgraded, and the new version has other CRDs.",
		Want:  "The upgrade changes the CRDs too, and keeps the objects.", Test: ofUpgrades,
	})
	_ = kept(Report{
		Name: "pods-after-an-upgrade", Source: "cilium/cilium#37271", Kind: restarts,
		Input: "The chart is upgraded while pods have connections to pods and Services.",
		Want:  "No connection breaks, and each pod keeps its addresses and interfaces.", Test: ofUpgrades,
	})
	_ = kept(Report{
		Name: "reboot-of-a-node", Source: "flannel-io/flannel#1474", Kind: restarts,
		Input: "A node is powered off and on again.",
		Want:  "Its pods are reached from the other node, without a hand.", Test: inFaults + "TestNodeReboot_Pods_KeepAddresses",
	})
	_ = kept(Report{
		Name: "addresses-after-a-reboot", Source: "projectcalico/calico#4190", Kind: restarts,
		Input: "A node restarts, and the kubelet makes new sandboxes for the pods that it had.",
		Want:  "The pods have the addresses that they had, and no others are taken.", Test: inFaults + "TestNodeReboot_Pods_KeepAddresses",
	})
	_ = kept(Report{
		Name: "node-that-does-not-come-back", Source: "kubernetes/kubernetes#65943", Kind: restarts,
		Input: "A node is lost. Its pod with a fixed IP is deleted by force, and a successor wants the IP.",
		Want:  "The successor is told to have the node fenced, and starts when that is done, not before.", Test: inFaults + "TestLostNode_PodAddresses_ReleasedOnceFenced",
	})
	_ = kept(Report{
		Name: "leader-changes-while-pods-start", Source: "kubeovn/kube-ovn#2044", Kind: restarts,
		Input: "The leading operator is killed while pods are created.",
		Want:  "Another one leads within seconds, all pods start, and no address has two holders.", Test: inFaults + "TestOperator_LeaderKilledInWave_AnotherTakesOver",
	})
	_ = kept(Report{
		Name: "fixed-ip-of-a-deleted-pod", Source: "projectcalico/calico#4694", Kind: addresses,
		Input: "A pod with a fixed IP is deleted, and another one that waits for the IP is there.",
		Want:  "The other pod starts with the IP, without a hand.", Test: inE2E + "TestRefusedPod_CauseGone_Starts/the pod that held the address is deleted",
	})
	_ = kept(Report{
		Name: "thousands-of-services", Source: "cilium/cilium#12815", Kind: fullTables,
		Input: "A tenant has thousands of Services.",
		Want:  "All of them are served, and removed when they are deleted.", Test: inE2E + "TestServices_ManyOnNode_ServedAndRemoved",
	})
	_ = kept(Report{
		Name: "default-route-elsewhere", Source: "k8snetworkplumbingwg/multus-cni#847", Kind: interfaces,
		Input: "A pod has its default route through a second interface.",
		Want:  "The pod still reaches its VPC, Services and cluster DNS.", Test: inE2E + "TestPod_SelectsNetworkAttachmentDefinitions_AllInterfacesReach",
	})
)
