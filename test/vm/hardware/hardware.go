// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware gives tests the network adapter with virtual functions that the
// virtual machine of test/vm has. Elsewhere, the tests that ask for it skip.
package hardware

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// driver is the driver of the emulated adapter, an Intel 82576.
const driver = "igb"

// Where the kernel shows devices.
const (
	netClass   = "/sys/class/net"
	pciDevices = "/sys/bus/pci/devices"
)

// driverLimit bounds the time that a driver takes to make the devices of its functions.
// Emulated registers are slow, and each function is reset.
const driverLimit = time.Minute

// Adapter is the physical function of a network adapter.
type Adapter struct {
	// Name is the name of its network device, in the network namespace of sysfs.
	Name string
	// Address is that on the PCI bus, like 0000:01:00.0.
	Address string
	// Most is the number of virtual functions that it can have.
	Most int
}

// Function is a virtual function.
type Function struct {
	// Index is its number at the adapter, from 0.
	Index int
	// Address is that on the PCI bus.
	Address string
}

// Find returns the machine's adapter. The test skips on a machine without an adapter. Test machines
// hide other adapters, so Find returns only an emulated one.
func Find(t testing.TB) Adapter {
	t.Helper()
	needs.Root(t, "to make virtual functions")
	adapter, err := find()
	if err != nil {
		t.Fatal(err)
	}
	if adapter.Name == "" {
		t.Skip(
			"missing feature: an emulated network adapter with virtual functions (driver " + driver + "): run: go run ./test/vm/cmd/vm --kernels 6.12 PACKAGE",
		)
	}
	return adapter
}

// find looks for a device of the driver. On real hardware, a change of
// the functions would cut off their users, so the machine has to be an emulated one.
func find() (Adapter, error) {
	vendor, err := os.ReadFile("/sys/class/dmi/id/sys_vendor")
	if err != nil || strings.TrimSpace(string(vendor)) != "QEMU" {
		return Adapter{}, nil //nolint:nilerr // a machine without this entry is no emulated one
	}
	devices, err := filepath.Glob(filepath.Join(netClass, "*", "device", "sriov_totalvfs"))
	if err != nil {
		return Adapter{}, fmt.Errorf("look for network adapters: %w", err)
	}
	for _, file := range devices {
		device := filepath.Dir(file)
		if linkBase(filepath.Join(device, "driver")) != driver {
			continue
		}
		most, err := readNumber(file)
		return Adapter{Name: filepath.Base(filepath.Dir(device)), Address: linkBase(device), Most: most}, err
	}
	return Adapter{}, nil
}

// MakeFunctions gives the adapter n virtual functions, from 1 to Most, and waits until
// each has a network device. They are gone after the test, in whatever namespace or
// with whatever driver they are. Tests with functions can't run in parallel.
func (a Adapter) MakeFunctions(t testing.TB, n int) []Function {
	t.Helper()
	if had, err := readNumber(filepath.Join(pciDevices, a.Address, "sriov_numvfs")); err != nil || had != 0 {
		t.Fatalf("%s has %d virtual functions (%v), want none: another test uses them", a.Name, had, err)
	}
	t.Cleanup(func() {
		if err := a.setFunctions(0); err != nil {
			t.Error(err)
		}
	})
	if err := a.setFunctions(n); err != nil {
		t.Fatal(err)
	}
	functions := make([]Function, n)
	for i := range functions {
		functions[i] = Function{Index: i, Address: linkBase(filepath.Join(pciDevices, a.Address, "virtfn"+strconv.Itoa(i)))}
		functions[i].Device(t)
	}
	return functions
}

// RemoveFunctions takes all virtual functions away before the test ends, as an
// administrator may do at any moment.
func (a Adapter) RemoveFunctions(t testing.TB) {
	t.Helper()
	if err := a.setFunctions(0); err != nil {
		t.Fatal(err)
	}
}

// SetUp sets the adapter's network device up: only then do its functions work.
func (a Adapter) SetUp(t testing.TB) {
	t.Helper()
	if err := netlink.LinkSetUp(a.Link(t)); err != nil {
		t.Fatal(err)
	}
}

// AwaitCarrier waits until the adapter, which is up, has a carrier, and so a speed. A change
// of the number of functions takes it away for some time.
func (a Adapter) AwaitCarrier(t testing.TB) {
	t.Helper()
	waitFor(t, a.Name+" has no carrier", func() bool { return a.Link(t).Attrs().OperState == netlink.OperUp })
}

// Link returns the adapter's network device as it is now.
func (a Adapter) Link(t testing.TB) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(a.Name)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// setFunctions sets the number of virtual functions. The kernel changes one number to
// another by way of 0 only.
func (a Adapter) setFunctions(n int) error {
	if err := os.WriteFile(filepath.Join(pciDevices, a.Address, "sriov_numvfs"), []byte(strconv.Itoa(n)), 0); err != nil {
		return fmt.Errorf("give %s %d virtual functions: %w", a.Name, n, err)
	}
	return nil
}

// Device returns the name of the function's network device. It waits for one: the
// driver makes it some time after the function. The device has to be in the network
// namespace of sysfs.
func (f Function) Device(t testing.TB) string {
	t.Helper()
	var names []string
	waitFor(t, f.Address+" has no network device", func() (ok bool) {
		names = namesIn(filepath.Join(pciDevices, f.Address, "net"))
		return len(names) == 1
	})
	return names[0]
}

// Driver returns the name of the function's driver, "" without one.
func (f Function) Driver() string {
	return linkBase(filepath.Join(pciDevices, f.Address, "driver"))
}

// Bind gives the function another driver, such as vfio-pci, and waits until the driver
// has it. The function has gone after the test, and so has the binding.
func (f Function) Bind(t testing.TB, driver string) {
	t.Helper()
	device := filepath.Join(pciDevices, f.Address)
	steps := []struct{ file, text string }{
		{filepath.Join(device, "driver_override"), driver},
		{filepath.Join(device, "driver", "unbind"), f.Address},
		{"/sys/bus/pci/drivers_probe", f.Address},
	}
	for _, step := range steps {
		if err := os.WriteFile(step.file, []byte(step.text), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			t.Fatalf("bind %s to %s: %v", f.Address, driver, err)
		}
	}
	waitFor(t, f.Address+" has the driver "+f.Driver()+", want "+driver, func() bool { return f.Driver() == driver })
}

func waitFor(t testing.TB, otherwise string, done func() bool) {
	t.Helper()
	waits.Until(t, driverLimit, "the driver is another", func() error {
		if !done() {
			return errors.New(otherwise)
		}
		return nil
	})
}

// linkBase returns the last part of a link's target, "" without a link.
func linkBase(file string) string {
	target, err := os.Readlink(file)
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

func namesIn(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func readNumber(file string) (int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read what a device can do: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return n, nil
}
