// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostdev_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cni/drivers"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestDeviceName_ExternalInput_NeverAliothDevice compares the lists of reserved names.
func TestDeviceName_ExternalInput_NeverAliothDevice(t *testing.T) {
	for _, name := range append(slices.Clone(hostdev.Names), hostdev.PodPrefix, hostdev.PodPrefix+"red") {
		if !multinet.ReservedDevice(name) || !hostdev.Managed(name) {
			t.Errorf("a network can name its host link %s", name)
		}
	}
	for _, prefix := range multinet.ReservedPrefixes {
		_, err := annotations.InterfaceNames([]string{"", prefix + "x"}, true)
		if err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("an interface of a pod may have the name %sx: %v", prefix, err)
		}
	}
}

// TestHostEndKinds_EachDriver_Match: packets from a host end of another kind would
// be dropped.
func TestHostEndKinds_EachDriver_Match(t *testing.T) {
	var kinds []string
	for _, driver := range drivers.All() {
		if driver.Pair {
			kinds = append(kinds, string(driver.Kind))
		}
	}
	slices.Sort(kinds)
	if !reflect.DeepEqual(kinds, hostdev.PodKinds) {
		t.Errorf("host ends of pods are of the kinds %v, the packet filter trusts %v", kinds, hostdev.PodKinds)
	}
}
