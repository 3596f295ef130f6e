// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSoakedTests_DriverKills_Included(t *testing.T) {
	paths, pattern, err := soakedTests(os.DirFS("../../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"./cnid/cni/drivers/ipvlan", "./cnid/cni/drivers/sriov", "./cnid/nodeipam/plugin/nodenic"}; !slices.Equal(
		slices.Sorted(slices.Values(paths)),
		want,
	) {
		t.Errorf("packages are %v, want %v", paths, want)
	}
	for _, name := range []string{
		"TestAttach_DaemonKilledAtEachMoment_NothingLeft", "TestSRIOV_ProcessKilledAtEachMoment_DeviceRestored",
		"TestDelegatedNIC_KilledAtEachMoment_NodeRestored", "TestDelegatedVF_KilledAtEachMoment_NodeRestored",
	} {
		if !strings.Contains(pattern, name) {
			t.Errorf("%s is not in %s", name, pattern)
		}
	}
}
