// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/api/chart"
)

// nodeIPAMOn are the values that turn on the node IPAM API.
const nodeIPAMOn = "nodeIPAM.enabled=true,nodeIPAM.infraSubnet=infra"

// hooks look for remainders of an earlier release, or of a release with other values.
var hooks = []string{"alioth-uninstall", "alioth-check-upgrade"}

// objectsWith returns the names of the objects whose text has a word, without the objects of the
// hooks.
func objectsWith(t *testing.T, word string, args ...string) []string {
	t.Helper()
	objects, err := chart.New(t, root, nil).Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		text, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), word) && !slices.Contains(hooks, object.GetName()) {
			names = append(names, object.GetKind()+" "+object.GetName())
		}
	}
	return names
}

func TestChartNodeIPAM_Off_NothingRendered(t *testing.T) {
	for _, word := range []string{"acn.azure.com", "node-ipam"} {
		if names := objectsWith(t, word); len(names) > 0 {
			t.Errorf("%q is in %q", word, names)
		}
	}
}

// TestChartNodeIPAM_GroupNotServed_NothingRendered: the group may belong to another program.
func TestChartNodeIPAM_GroupNotServed_NothingRendered(t *testing.T) {
	for served, other := range map[string]string{
		"acn.azure.com": `"multitenancy.acn.azure.com"`, "multitenancy.acn.azure.com": `"acn.azure.com"`,
	} {
		args := []string{"--set", nodeIPAMOn + ",nodeIPAM.groups={" + served + "}"}
		if names := objectsWith(t, other, args...); len(names) > 0 {
			t.Errorf("%s is served: %s is in %q", served, other, names)
		}
		for _, want := range []string{
			"ClusterRole alioth-operator", "ClusterRole alioth-cnid", "ClusterRole alioth-view", "ClusterRole alioth-pod-network-editor",
			"ValidatingAdmissionPolicy alioth-nodeipam-configs", "ValidatingAdmissionPolicy alioth-nodeipam-status",
			"ValidatingAdmissionPolicy alioth-daemon-nodeipam", "ValidatingAdmissionPolicy alioth-nodeipam-tenants",
			"CustomResourceDefinition nodeinfo." + served,
		} {
			if names := objectsWith(t, `"`+served+`"`, args...); !slices.Contains(names, want) {
				t.Errorf("%s is served: it is in %q, want %s among them", served, names, want)
			}
		}
	}
}

// TestDevicePolicy_OtherDevicePlugin_NotRendered: without Alioth's plugin the resources of the
// group belong to another plugin.
func TestDevicePolicy_OtherDevicePlugin_NotRendered(t *testing.T) {
	const policy = "ValidatingAdmissionPolicy alioth-nodeipam-resources"
	for set, want := range map[string]bool{nodeIPAMOn: true, nodeIPAMOn + ",nodeIPAM.devicePlugin=false": false} {
		if got := slices.Contains(objectsWith(t, "acn.azure.com/vnet-nic", "--set", set), policy); got != want {
			t.Errorf("%s: %s is there: %t, want %t", set, policy, got, want)
		}
	}
}

func TestChartNodeIPAM_Values_ReachOperatorArguments(t *testing.T) {
	for set, want := range map[string][]string{
		"image.tag=x": nil,
		nodeIPAMOn:    {"--node-ipam=true", "--node-ipam-infra-subnet=infra", "--node-ipam-groups=multitenancy.acn.azure.com,acn.azure.com"},
		nodeIPAMOn + ",nodeIPAM.groups={acn.azure.com}": {"--node-ipam=true", "--node-ipam-infra-subnet=infra", "--node-ipam-groups=acn.azure.com"},
	} {
		programs := rendered(t, "Deployment", "--set", set)
		if len(programs) == 0 {
			t.Fatal("the chart has no operator")
		}
		for name, object := range programs {
			args := slices.DeleteFunc(argumentsOf(t, object), func(arg string) bool { return !strings.HasPrefix(arg, "--node-ipam") })
			if !slices.Equal(args, want) {
				t.Errorf("%s: %s has the arguments %q, want %q", set, name, args, want)
			}
		}
	}
}

func TestChartNodeIPAM_Values_ReachDaemonArguments(t *testing.T) {
	for set, want := range map[string][]string{
		nodeIPAMOn: {"--node-ipam", "--node-ipam-groups=multitenancy.acn.azure.com,acn.azure.com"},
		nodeIPAMOn + ",nodeIPAM.groups={acn.azure.com},nodeIPAM.listen=[::1]:10090,nodeIPAM.podCgroup=/sys/fs/cgroup/kubepods": {
			"--node-ipam", "--node-ipam-groups=acn.azure.com", "--node-ipam-listen=[::1]:10090", "--node-ipam-pod-cgroup=/sys/fs/cgroup/kubepods",
		},
		"nodeIPAM.listen=localhost:10090": nil,
	} {
		daemon := rendered(t, "DaemonSet", "--set", set)["alioth-cnid"]
		args := slices.DeleteFunc(argumentsOf(t, daemon), func(arg string) bool { return !strings.HasPrefix(arg, "--node-ipam") })
		if !slices.Equal(args, want) {
			t.Errorf("%s: the daemon has the arguments %q, want %q", set, args, want)
		}
	}
}
