// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package addressonly_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/addressonly"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func spec() ifdriver.Spec {
	return ifdriver.Spec{
		ContainerID: "c1", IfName: "eth0", PodUID: "uid-c1", Network: "bridge", MAC: net.HardwareAddr{2, 0, 10, 0, 0, 7},
	}
}

func open(t *testing.T, dir, boot string) *addressonly.Driver {
	t.Helper()
	driver, err := addressonly.New(dir, boot, []string{"nic?"})
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

func TestAddressOnly_AttachToDetach_InterfaceListed(t *testing.T) {
	dir := t.TempDir()
	one := spec()
	link, err := open(t, dir, "boot").Attach(t.Context(), one)
	if err != nil || !cmp.Equal(link, ifdriver.Link{}) {
		t.Fatalf("%+v, %v", link, err)
	}
	later := open(t, dir, "boot") // the daemon's next process
	if got, err := later.Check(t.Context(), one); err != nil || !cmp.Equal(got, link) {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
	other := one
	other.MAC = net.HardwareAddr{2, 0, 10, 0, 0, 8}
	if _, err := later.Check(t.Context(), other); !errors.Is(err, ifdriver.ErrMismatch) || errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("with another MAC: %v", err)
	}
	found, err := later.List(t.Context())
	want := []ifdriver.Found{{ContainerID: "c1", IfName: "eth0", PodUID: "uid-c1", Network: "bridge"}}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, when := range []string{"first", "again"} {
		if err := later.Detach(t.Context(), "c1", "eth0"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	wantGone(t, later, one)
}

func TestAddressOnly_Reboot_NothingLeft(t *testing.T) {
	dir := t.TempDir()
	if _, err := open(t, dir, "boot").Attach(t.Context(), spec()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, open(t, dir, "another boot"), spec())
}

func TestAddressOnly_NamedNamespaceEnds_InterfaceRemoved(t *testing.T) {
	pod := netnstest.New(t)
	driver := open(t, t.TempDir(), "boot")
	one := spec()
	one.NetnsPath = pod.Path
	id, err := netns.Identify(one.NetnsPath)
	if err != nil {
		t.Fatal(err)
	}
	link, err := driver.Attach(t.Context(), one)
	if err != nil || link.NetnsInode != id.Inode || link.NetnsCookie != id.Cookie {
		t.Fatalf("%+v, %v, want %+v", link, err, id)
	}
	if got, err := driver.Check(t.Context(), one); err != nil || !cmp.Equal(got, link) {
		t.Errorf("%+v, %v", got, err)
	}
	pod.Close(t)
	wantGone(t, driver, one)
}

func TestDelegatedDevice_BeforeHandover_UpWithCarrier(t *testing.T) {
	driver := open(t, t.TempDir(), "boot")
	one := spec()
	one.Mode, one.MAC = ifdriver.ModeDevice, net.HardwareAddr{0, 0x0d, 0x3a, 0, 0, 1}
	netnstest.New(t).Do(t, func() error {
		if _, err := driver.Attach(t.Context(), one); !errors.Is(err, ifdriver.ErrNotYet) {
			t.Errorf("a device that is not plugged in: %v", err)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = "nic0", one.MAC
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "switch"}); err != nil {
			return err
		}
		if _, err := driver.Attach(t.Context(), one); !errors.Is(err, ifdriver.ErrNotYet) || !strings.Contains(err.Error(), "no carrier") {
			t.Errorf("a device without a carrier: %v", err)
		}
		wantGone(t, driver, one)
		if err := netnstest.OnLink("switch", netlink.LinkSetUp)(); err != nil {
			return err
		}
		if _, err := driver.Attach(t.Context(), one); err != nil {
			t.Errorf("a device with a carrier: %v", err)
		}
		if err := netnstest.OnLink("nic0", checkUp)(); err != nil {
			return err
		}
		if err := netnstest.OnLink("nic0", netlink.LinkDel)(); err != nil { // it is in the pod
			return err
		}
		if _, err := driver.Check(t.Context(), one); err != nil {
			t.Errorf("a device that has left the node: %v", err)
		}
		return nil
	})
}

// TestDelegatedDevice_NotOffered_Refused: whatever the Address of a pod says.
func TestDelegatedDevice_NotOffered_Refused(t *testing.T) {
	driver := open(t, t.TempDir(), "boot")
	one := spec()
	one.Mode, one.MAC = ifdriver.ModeDevice, net.HardwareAddr{0, 0x0d, 0x3a, 0, 0, 1}
	netnstest.New(t).Do(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = "storage0", one.MAC
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "switch"}); err != nil {
			return err
		}
		if _, err := driver.Attach(t.Context(), one); !errors.Is(err, nic.ErrNotOffered) {
			t.Errorf("the device storage0: %v", err)
		}
		return nil
	})
	wantGone(t, driver, one)
}

func checkUp(link netlink.Link) error {
	if link.Attrs().Flags&net.FlagUp == 0 {
		return errors.New("the device is down")
	}
	return nil
}

// wantGone checks that a driver has nothing of an interface.
func wantGone(t *testing.T, driver *addressonly.Driver, one ifdriver.Spec) {
	t.Helper()
	if _, err := driver.Check(t.Context(), one); !errors.Is(err, ifdriver.ErrGone) || !errors.Is(err, ifdriver.ErrMismatch) {
		t.Errorf("check: %v, want gone", err)
	}
	if found, err := driver.List(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("list: %+v, %v, want nothing", found, err)
	}
}
