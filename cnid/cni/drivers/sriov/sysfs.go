// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sysfs is the root of the kernel's file system of devices, normally /sys. It shows the network
// devices of the namespace of its mount: the node's.
type sysfs string

// defaultSysfs is the node's, also in the daemon's container, which is in the network
// namespace of the node.
const defaultSysfs sysfs = "/sys"

// function is a virtual function (VF) of a PCI device.
type function struct {
	// PCI is the PCI address of the function, PF the address of its physical function.
	PCI, PF string
	// PFName is the network device of the physical function, and Index the VF's number
	// there, from 0.
	PFName string
	Index  int
	// Driver is the kernel's, "" without one.
	Driver string
	// Name is the name of its network device, "" without one in the node's namespace.
	Name string
}

// errNoDevice reports that the node has no such device.
var errNoDevice = errors.New("the node has no such device")

// errNoVF reports a device that is not a virtual function.
var errNoVF = errors.New("the device is no virtual function of SR-IOV")

func (s sysfs) device(pci string) string { return filepath.Join(string(s), "bus/pci/devices", pci) }

// function reads a VF. A missing device is an errNoDevice.
func (s sysfs) function(pci string) (function, error) {
	f := function{PCI: pci}
	dir := s.device(pci)
	if _, err := os.Stat(dir); err != nil {
		return f, fmt.Errorf("look up device %s: %w: %w", pci, errNoDevice, err)
	}
	var err error
	if f.PF, err = s.physical(pci); err != nil {
		return f, err
	}
	if f.Index, err = s.index(f.PF, pci); err != nil {
		return f, err
	}
	if f.PFName, err = s.uplink(f.PF); err != nil {
		return f, err
	}
	if f.Driver, err = linkBase(filepath.Join(dir, "driver")); err != nil {
		return f, err
	}
	names, err := s.interfaces(pci)
	if len(names) > 0 {
		f.Name = names[0]
	}
	return f, err
}

// physical returns the address of a VF's physical function.
func (s sysfs) physical(pci string) (string, error) {
	pf, err := linkBase(filepath.Join(s.device(pci), "physfn"))
	if err == nil && pf == "" {
		err = fmt.Errorf("device %s: %w: correct the device plugin's selection for the resource", pci, errNoVF)
	}
	return pf, err
}

// index returns the number that a physical function has for a VF.
func (s sysfs) index(pf, pci string) (int, error) {
	links, err := filepath.Glob(filepath.Join(s.device(pf), "virtfn*"))
	if err != nil {
		return 0, fmt.Errorf("list the virtual functions of %s: %w", pf, err)
	}
	for _, link := range links {
		to, err := linkBase(link)
		if err != nil {
			return 0, err
		}
		if number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(link), "virtfn")); err == nil && to == pci {
			return number, nil
		}
	}
	return 0, fmt.Errorf("device %s: its physical function %s has no number for it", pci, pf)
}

// representor is the name of a port of a switch that stands for a function (devlink-port(7)).
var representor = regexp.MustCompile(`^(c\d+)?pf\d+(vf\d+|sf\d+)?$`)

// uplink returns the network device of a physical function. In mode switchdev its functions
// have representors there too.
func (s sysfs) uplink(pf string) (string, error) {
	names, err := s.interfaces(pf)
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		port, err := os.ReadFile(filepath.Join(s.device(pf), "net", name, "phys_port_name"))
		return err == nil && representor.MatchString(strings.TrimSpace(string(port)))
	})
	if len(names) != 1 {
		return "", fmt.Errorf(
			"physical function %s has the network devices %v in the node's namespace, and settings are made by exactly one: move others away, or load its driver",
			pf,
			names,
		)
	}
	return names[0], nil
}

// interfaces lists the network devices of a PCI device.
func (s sysfs) interfaces(pci string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.device(pci), "net"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list the network devices of %s: %w", pci, err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// linkBase returns the last part of a link's target, "" without a link.
func linkBase(path string) (string, error) {
	to, err := os.Readlink(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look up a device: %w", err)
	}
	return filepath.Base(to), nil
}

// userspace reports whether a program drives the VF, such as one with DPDK: no network
// device of the kernel belongs to it then.
func (f function) userspace() bool {
	return f.Driver == "" || strings.Contains(f.Driver, "vfio") || strings.Contains(f.Driver, "uio")
}

// PhysicalFunction returns the PCI address of the physical function of a VF, "" if the node
// does not have the device now.
func PhysicalFunction(pci string) string {
	pf, err := defaultSysfs.physical(pci)
	if err != nil {
		return ""
	}
	return pf
}

// NumberOf returns the network device of the physical function of a VF, and the VF's number
// there, from 0. A device that the node does not have now is an error.
func NumberOf(pci string) (pf string, number int, err error) {
	f, err := defaultSysfs.function(pci)
	return f.PFName, f.Index, err
}
