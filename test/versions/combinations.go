// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/alioth-net/alioth/test/cluster"
)

// combination is versions that are tested together.
type combination struct {
	// name is its key in the record.
	name string
	cluster.Versions
}

// combinations are tested one after the other. The three newest minor versions of Kubernetes
// come first, then the oldest one that the chart permits, then older programs on the nodes.
func combinations() []combination {
	return []combination{
		{"kubernetes-1.37", cluster.Versions{Kubernetes: "1.37"}},
		{"kubernetes-1.36", cluster.Versions{Kubernetes: "1.36"}},
		{"kubernetes-1.35", cluster.Versions{Kubernetes: "1.35"}},
		{"kubernetes-1.34", cluster.Versions{Kubernetes: "1.34"}},
		{"kubelet-1.34", cluster.Versions{Kubernetes: "1.36", Kubelet: "1.34"}},
		{"containerd-1.7", cluster.Versions{Kubernetes: "1.36", Containerd: "1.7"}},
	}
}

// choose returns the combinations with the given names, all without names.
func choose(names []string) ([]combination, error) {
	all := combinations()
	if len(names) == 0 {
		return all, nil
	}
	byName := map[string]combination{}
	known := make([]string, 0, len(all))
	for _, c := range all {
		byName[c.name] = c
		known = append(known, c.name)
	}
	chosen := make([]combination, 0, len(names))
	for _, name := range names {
		c, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("no combination %q: use %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

// suite is tests of one package.
type suite struct {
	dir string
	// tests are top-level tests; nil is all of the package.
	tests []string
}

// onLab returns the scenes that each combination must pass: the demo's matrix, and for each
// interface between Alioth and Kubernetes the scene that uses most of it.
func onLab() []suite {
	return []suite{
		{"test/e2e", []string{
			"TestTenants_SameRange_Isolated", // the demo
			"TestDefaultVPC_NamespaceWithoutLabel_PodsConnected",
			"TestLogsAndExec_TenantVPC_Work",
			"TestPortForward_TenantPod_Reached",
			"TestProbes_TenantsSameRange_FollowOwnServer",
			"TestDNS_TwoTenantsSameNames_OwnVPCAnswered",
			"TestVPCService_ClientPods_OwnPodsAnswer",
			"TestDefaultVPC_Service_Answered",
			"TestNodePort_EachVPC_LeadsToBackend",
			"TestHostPort_AnyVPC_LeadsToPod",
			"TestTenant_IPv6Only_Served",
			"TestEgress_EachMode_FollowsVPC",
			"TestNICAnnotation_Wrong_PodRefusedWithReason",
			"TestPod_VPCAndDANMInterfaces_BothReach",
			"TestMultusManifests_Each_Accepted",
			"TestNetworkServices_PeersByName_NetworkAddressesReached",
			"TestNodeNetworkPolicy_Bridge_PresentWhilePolicyExists",
			"TestDaemonRestart_ConnectionsAndPods_Unnoticed",
			"TestVersions_EachProgram_Told",
		}},
		{"test/e2e/hostile", []string{
			"TestPodStatus_HandWritten_GivesNoAddress",
			"TestStolenToken_PodOfOtherNode_Unchanged",
			"TestTenantPorts_NodeOrNodePorts_NotTaken",
			"TestKubeletProbe_PodWithNodeAddress_AsksPod",
		}},
	}
}

// onAPIServer returns the tests of CRDs and admission policies, which need an API server alone. A
// combination with other programs on the nodes has the API server of an earlier one.
func (c combination) onAPIServer() []suite {
	if c.Versions != (cluster.Versions{Kubernetes: c.Kubernetes}) {
		return nil
	}
	return []suite{{dir: "test/api/admission"}, {dir: "test/api/schema"}}
}
