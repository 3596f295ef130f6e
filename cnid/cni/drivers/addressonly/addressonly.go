// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressonly is the driver for interfaces that other CNI plugins make with addresses of
// the node's IPAM API. It makes no interface: a note on disk keeps that the addresses are in use.
// A note is valid for one boot, because no sandbox outlives a boot. A delegated device is
// switched on, and must have a carrier, before the plugin gets its address.
package addressonly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Kind names the driver's kind.
const Kind ifdriver.Kind = netif.KindExternal

var capabilities = ifdriver.Capabilities{External: true}

// Driver implements ifdriver.Driver.
type Driver struct {
	notes sandbox.Notes[note]
	boot  string
	// devices are patterns of the names of devices that pods may get.
	devices []string
}

// note is the driver's record of an interface. Its namespace is zero if the caller has not named
// it.
type note struct {
	sandbox.Interface
	Boot string `json:"boot"`
	MAC  string `json:"mac"`
}

// Type returns the driver's entry in a registry. devices are patterns (nic.Named) of the names
// of devices that pods may get: the Address of a pod can be made again from an annotation,
// which tenants may write, so the driver goes by the node's configuration too.
func Type(devices []string) ifdriver.Type {
	return ifdriver.Type{Kind: Kind, Capabilities: capabilities, Maker: maker{devices: devices}}
}

// maker implements ifdriver.Maker.
type maker struct {
	ifdriver.Supported
	devices []string
}

// Open implements ifdriver.Maker.
func (m maker) Open(node ifdriver.Node) (ifdriver.Driver, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("identify this boot: %w", err)
	}
	return New(filepath.Join(node.Dir, string(Kind)), string(bytes.TrimSpace(boot)), m.devices)
}

// New returns a Driver whose notes are in a folder, in the boot of an ID. devices is as for
// Type.
func New(dir, boot string, devices []string) (*Driver, error) {
	notes, err := sandbox.NewNotes[note](dir)
	return &Driver{notes: notes, boot: boot, devices: devices}, err
}

// Capabilities implements ifdriver.Driver.
func (d *Driver) Capabilities() ifdriver.Capabilities { return capabilities }

// HostName implements ifdriver.Driver.
func (d *Driver) HostName(string, string) string { return "" }

// Close implements ifdriver.Driver.
func (d *Driver) Close() {}

// Resize implements ifdriver.Driver. Nobody calls it: the interfaces follow no MTU.
func (d *Driver) Resize(context.Context, ifdriver.Spec) error { return errors.ErrUnsupported }

// Attach implements ifdriver.Driver.
func (d *Driver) Attach(_ context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	var id netns.ID
	if spec.NetnsPath != "" {
		var err error
		if id, err = netns.Identify(spec.NetnsPath); err != nil {
			return ifdriver.Link{}, err
		}
	}
	if spec.Mode == ifdriver.ModeDevice {
		if err := d.enable(spec.MAC); err != nil {
			return ifdriver.Link{}, err
		}
	}
	one := note{Interface: sandbox.Of(spec, id, 0), Boot: d.boot, MAC: spec.MAC.String()}
	return one.link(), d.notes.Put(one)
}

// enable switches on the node's device with an Ethernet address. A device that is missing
// or has no carrier is an ifdriver.ErrNotYet.
func (d *Driver) enable(mac net.HardwareAddr) error {
	node, err := nic.Read()
	if err != nil {
		return err
	}
	link, err := node.Find(mac)
	if errors.Is(err, nic.ErrMissing) {
		return fmt.Errorf("%w: %w", ifdriver.ErrNotYet, err)
	}
	if err != nil {
		return fmt.Errorf("delegated device %s: %w", mac, err)
	}
	name := link.Attrs().Name
	if offered, err := nic.Named(name, d.devices); err != nil || !offered {
		return errors.Join(fmt.Errorf("%w: %s (%s); name it in nodeIPAM.devices", nic.ErrNotOffered, name, mac), err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("switch on the delegated device %s: %w", name, err)
	}
	if link, err = netlink.LinkByIndex(link.Attrs().Index); err != nil {
		return fmt.Errorf("read the delegated device %s: %w", name, err)
	}
	switch link.Attrs().OperState {
	case netlink.OperDown, netlink.OperLowerLayerDown, netlink.OperNotPresent:
		return fmt.Errorf("%w: the delegated device %s (%s) has no carrier", ifdriver.ErrNotYet, name, mac)
	case netlink.OperUp, netlink.OperUnknown, netlink.OperDormant, netlink.OperTesting:
	}
	return nil
}

func (n note) link() ifdriver.Link { return ifdriver.Link{NetnsInode: n.Inode, NetnsCookie: n.Cookie} }

// Detach implements ifdriver.Driver.
func (d *Driver) Detach(_ context.Context, containerID, ifName string) error {
	return d.notes.Remove(note{Interface: sandbox.Interface{ContainerID: containerID, IfName: ifName}})
}

// Check implements ifdriver.Driver.
func (d *Driver) Check(_ context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	one, ok, err := d.notes.Get(spec.ContainerID, spec.IfName)
	if err != nil {
		return ifdriver.Link{}, err
	}
	present := false
	if ok {
		if present, err = d.present(one); err != nil {
			return ifdriver.Link{}, err
		}
	}
	switch {
	case !present:
		return ifdriver.Link{}, fmt.Errorf(
			"%w: %w: the sandbox of %s has ended",
			ifdriver.ErrMismatch,
			ifdriver.ErrGone,
			spec.IfName,
		)
	case one.MAC != spec.MAC.String():
		return ifdriver.Link{}, fmt.Errorf("%w: it has MAC %s", ifdriver.ErrMismatch, one.MAC)
	}
	return one.link(), nil
}

// present reports whether the sandbox of an interface may exist. Without a name of its
// namespace that is assumed until the node boots.
func (d *Driver) present(one note) (bool, error) {
	if one.Boot != d.boot {
		return false, nil
	}
	if one.NetnsPath == "" {
		return true, nil
	}
	pod, err := one.Open()
	if err != nil || pod == nil {
		return false, err
	}
	return true, pod.Close()
}

// List implements ifdriver.Driver.
func (d *Driver) List(context.Context) ([]ifdriver.Found, error) {
	all, err := d.notes.All()
	if err != nil {
		return nil, err
	}
	var list []ifdriver.Found
	for _, one := range all {
		present, err := d.present(one)
		if err != nil {
			return nil, err
		}
		if present {
			list = append(list, one.Found(true))
		}
	}
	return list, nil
}
