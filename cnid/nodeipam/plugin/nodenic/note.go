// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// note describes the devices of an attachment, from before the first is moved until the last is
// back. IfName is the interface name of the command, not of a device.
type note struct {
	sandbox.Interface
	Devices []device `json:"devices"`
}

// device is one device of the node that is delegated.
type device struct {
	Interface
	// Was is its state on the node.
	Was devicemove.Device `json:"was"`
	// Kind, Bus and Parent describe the device, and Permanent is its own Ethernet address.
	// Neither changes between namespaces, and no pod can change them.
	Kind      string           `json:"kind"`
	Bus       string           `json:"bus,omitempty"`
	Parent    string           `json:"parent,omitempty"`
	Permanent net.HardwareAddr `json:"permanent,omitempty"`
	// Inode is the inode of the hardware in sysfs, 0 if it has none. The kernel never uses an
	// inode again, but gives an address on a bus to a device that is plugged in later.
	Inode uint64 `json:"inode,omitempty"`
}

// deviceOf returns the note of a device that is going to be an interface. A device that is
// brought back is set down: the daemon had set it up for the pod alone.
func deviceOf(link netlink.Link, one Interface) device {
	attrs := link.Attrs()
	was := *devicemove.Of(link)
	was.Up = false
	d := device{
		Interface: one, Was: was, Kind: link.Type(), Bus: attrs.ParentDevBus, Parent: attrs.ParentDev,
		Permanent: slices.Clone(attrs.PermHWAddr),
	}
	d.Inode, _ = d.inode() // without it, only its address on the bus tells
	return d
}

// sysfsBus has a folder for each bus, in every network namespace.
const sysfsBus = "/sys/bus"

// inode returns the inode of the hardware that now has the device's address on its bus.
func (d device) inode() (uint64, error) {
	if d.Bus == "" || d.Parent == "" {
		return 0, nil
	}
	var at unix.Stat_t
	err := unix.Stat(filepath.Join(sysfsBus, d.Bus, "devices", d.Parent), &at)
	return at.Ino, err
}

// removed reports whether the node has lost the hardware of a device, which has ended then.
func (d device) removed() bool {
	now, err := d.inode()
	if errors.Is(err, unix.ENOENT) {
		_, err = os.Stat(filepath.Join(sysfsBus, d.Bus, "devices")) // which is there if sysfs is
		return err == nil
	}
	return err == nil && d.Inode != 0 && now != d.Inode
}

// temporaryPrefix starts the name of a device on its way between two namespaces.
const temporaryPrefix = "ald"

// temporary returns the name of a device on its way between two namespaces.
func (n note) temporary(d device) string {
	return ifdriver.DeviceName(temporaryPrefix, n.ContainerID, d.Name)
}

// kindOfHardware is the kind of devices with a driver. The kernel gives them back to the initial
// namespace when the namespace of the pod ends. It deletes others, such as veth, then.
const kindOfHardware = "device"

// find returns the device among the devices of a namespace, nil if it is not there. Its name
// decides between several of the same description, which only devices without hardware may have.
func (n note) find(links []netlink.Link, d device) netlink.Link {
	var found netlink.Link
	for _, link := range links {
		if !d.is(link) {
			continue
		}
		if name := link.Attrs().Name; name == n.temporary(d) || name == d.Name || name == d.Was.Name {
			return link
		}
		if found == nil {
			found = link
		}
	}
	return found
}

// is reports whether a device of some namespace is the device of the note. A virtual function and
// the device that stands for it share an address, and differ in their parents.
func (d device) is(link netlink.Link) bool {
	attrs := link.Attrs()
	if link.Type() != d.Kind || attrs.ParentDevBus != d.Bus || attrs.ParentDev != d.Parent {
		return false
	}
	if len(d.Permanent) > 0 {
		return bytes.Equal(attrs.PermHWAddr, d.Permanent)
	}
	return bytes.Equal(attrs.HardwareAddr, d.MAC)
}

// gives reports whether the note is of the same interfaces.
func (n note) gives(wanted []Interface) bool {
	return slices.EqualFunc(
		n.Devices,
		wanted,
		func(d device, one Interface) bool { return reflect.DeepEqual(d.Interface, one) },
	)
}
