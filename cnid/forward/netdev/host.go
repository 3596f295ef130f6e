// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
)

// Host is the network namespace of a node. Its methods must not be called at
// the same time, and must be called in that namespace, because kernel settings
// are looked up in the caller's.
type Host struct {
	netlink *netlink.Handle
	// socket is for ioctls.
	socket  int
	sysctls *settings
	log     *slog.Logger
	// applied is the state that was made true last, the zero value after a
	// failure; routes are those that it has.
	applied hostdev.State
	routes  []route
	// devices holds the devices that Links made last, the zero value after a failure.
	devices Devices
	// settled reports that a difference is a change by another program.
	settled bool
	// repaired is the next result of Repaired.
	repaired []Repair
}

// New returns the Host of the calling thread's network namespace. The original
// values of kernel settings are kept in the file settingsFile, which outlives
// the process.
func New(settingsFile string, log *slog.Logger) (*Host, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		handle.Close()
		return nil, fmt.Errorf("open socket: %w", err)
	}
	return &Host{
		netlink: handle,
		socket:  socket,
		sysctls: &settings{file: settingsFile, root: hostdev.SettingsRoot},
		log:     log,
	}, nil
}

// Close releases the netlink sockets and leaves everything else as it is.
func (h *Host) Close() {
	h.netlink.Close()
	unix.Close(h.socket)
}

// Apply reads the kernel's state and applies the differences. It continues after a
// failure; the error names every failure, as a *DeviceError if it concerns one device
// only.
func (h *Host) Apply(s hostdev.State) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("check state of devices: %w", err)
	}
	last := h.applied
	h.applied = hostdev.State{}
	h.settled = len(last.Shadows) > 0
	forwarding := h.applyForwarding()
	h.settled = h.settled && reflect.DeepEqual(last.Shadows, s.Shadows) && reflect.DeepEqual(last.Node, s.Node)
	addresses := errors.Join(h.applyShadows(s.Shadows), h.applyNode(s.Node))
	pods := h.applyPods(s.Pods, last.Pods)
	routes, err := h.ownRoutes()
	if err := errors.Join(err, forwarding, addresses, pods, h.applyRoutes(s, routes)); err != nil {
		return err
	}
	h.applied = s
	return nil
}

// Update is Apply without reading the kernel's state: it applies the differences from
// the last applied state. If more than pods differ, or the last call failed, it calls
// Apply.
func (h *Host) Update(s hostdev.State) error {
	if reflect.DeepEqual(h.applied, s) {
		return nil
	}
	last := h.applied
	last.Pods = s.Pods
	if !reflect.DeepEqual(last, s) {
		return h.Apply(s)
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("check state of devices: %w", err)
	}
	h.applied = hostdev.State{}
	if err := h.applyRoutes(s, h.routes); err != nil {
		return err
	}
	h.applied = s
	return nil
}

// Uninstall removes the devices, pods' host ends included, the routes, the
// shadow addresses and gives kernel settings their original values.
func (h *Host) Uninstall(s hostdev.State) error {
	return errors.Join(
		h.deleteRoutes(),
		h.dropAddresses("lo", s.Shadows),
		h.deleteDevices(),
		h.sysctls.restore(),
	)
}

// absent reports whether a netlink error means that the object is not there.
func absent(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
