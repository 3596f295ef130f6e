// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestMakeFunctions_Each_OwnDevice(t *testing.T) {
	adapter := Find(t)
	functions := adapter.MakeFunctions(t, 3)
	seen := map[string]bool{adapter.Address: true, adapter.Name: true}
	for _, f := range functions {
		name := f.Device(t)
		if f.Address == "" || seen[f.Address] || seen[name] || f.Driver() != "igbvf" {
			t.Errorf("function %d is %q with the device %q and the driver %q", f.Index, f.Address, name, f.Driver())
		}
		seen[f.Address], seen[name] = true, true
		if parent := linkBase(filepath.Join(pciDevices, f.Address, "physfn")); parent != adapter.Address {
			t.Errorf("the function %s is one of %s, want %s", f.Address, parent, adapter.Address)
		}
	}
}

func TestMakeFunctions_TestEnds_FunctionsGone(t *testing.T) {
	adapter := Find(t)
	var functions []Function
	t.Run("with functions", func(t *testing.T) { functions = adapter.MakeFunctions(t, adapter.Most) })
	if len(functions) == 0 {
		t.Fatal("no functions were made")
	}
	for _, f := range functions {
		if _, err := os.Stat(filepath.Join(pciDevices, f.Address)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", f.Address, err)
		}
	}
}

// virtual returns the adapter's data about a function.
func virtual(t *testing.T, adapter Adapter, index int) netlink.VfInfo {
	t.Helper()
	for _, info := range adapter.Link(t).Attrs().Vfs {
		if info.ID == index {
			return info
		}
	}
	t.Fatalf("%s has no function %d", adapter.Name, index)
	return netlink.VfInfo{}
}

func TestAdapter_Settings_KnownTakenOthersRefused(t *testing.T) {
	adapter := Find(t)
	adapter.MakeFunctions(t, 2)
	link := adapter.Link(t)
	mac := net.HardwareAddr{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}
	for name, err := range map[string]error{
		"mac": netlink.LinkSetVfHardwareAddr(link, 1, mac), "vlan": netlink.LinkSetVfVlanQos(link, 1, 100, 3),
		"spoofchk": netlink.LinkSetVfSpoofchk(link, 1, false), "trust": netlink.LinkSetVfTrust(link, 1, true),
	} {
		if err != nil {
			t.Errorf("set %s: %v", name, err)
		}
	}
	if got := virtual(t, adapter, 1); got.Mac.String() != mac.String() || got.Vlan != 100 || got.Qos != 3 || got.Spoofchk || got.Trust != 1 {
		t.Errorf("function 1 has %+v", got)
	}
	if other := virtual(t, adapter, 0); other.Vlan != 0 || !other.Spoofchk || other.Trust != 0 {
		t.Errorf("function 0 has got settings of function 1: %+v", other)
	}
	if err := netlink.LinkSetVfState(link, 1, netlink.VF_LINK_STATE_DISABLE); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("setting the link state gives %v, want that it is not supported", err)
	}
	if err := netlink.LinkSetVfRate(link, 1, 10, 20); !errors.Is(err, unix.EINVAL) {
		t.Errorf("setting a least rate gives %v, want that it is invalid", err)
	}
}

func TestBind_OtherDriver_NetworkDeviceGone(t *testing.T) {
	f := Find(t).MakeFunctions(t, 1)[0]
	f.Bind(t, "vfio-pci")
	if names := namesIn(filepath.Join(pciDevices, f.Address, "net")); len(names) != 0 {
		t.Errorf("the function still has the network device %v", names)
	}
	groups := namesIn(filepath.Join(pciDevices, f.Address, "iommu_group", "devices"))
	if len(groups) != 1 || groups[0] != f.Address {
		t.Errorf("its IOMMU group has %v, want the function alone", groups)
	}
	f.Bind(t, "igbvf")
	f.Device(t)
}
