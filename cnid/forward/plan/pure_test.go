// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// pure has the packages that change no kernel: the states, the plans and the comparisons. The
// packages of onlyData make no system call either.
var (
	onlyData = []string{"ebpf/datapath/state", "ebpf/datapath/hook", "cnid/forward/netdev/hostdev", "store"}
	pure     = slices.Concat(onlyData, []string{
		"cnid/forward/netfilter/ruleset", "cnid/forward/plan", "cnid/forward/plan/serviceplan", "cnid/inspect/verify", "cnid/inspect/nodestatus", "cnid/cni/decision", "cnid/forward/lookup/cache",
		"store/rules/allocation", "store/rules/replies", "store/rules/services", "store/rules/tenancy", "operator/ipam",
	})
)

// Pure packages link nothing that changes a kernel, not even through others.
func TestPurePackages_Imports_NoKernelAccess(t *testing.T) {
	for _, name := range pure {
		effects := []string{"cilium/ebpf", "netlink", "nftables"}
		if slices.Contains(onlyData, name) {
			effects = append(effects, "golang.org/x/sys")
		}
		for _, path := range linked(t, name) {
			if slices.ContainsFunc(effects, func(effect string) bool { return strings.Contains(path, effect) }) && !strings.HasPrefix(path, "vendor/") {
				t.Errorf("%s links %s", name, path)
			}
		}
	}
}

// linked are the packages that one of this module links.
func linked(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "github.com/alioth-net/alioth/"+name).Output()
	if err != nil {
		t.Fatalf("list packages of %s: %v", name, err)
	}
	return strings.Fields(string(out))
}
