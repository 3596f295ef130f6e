// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/netkit"
	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func TestDeviceKind_KernelProbe_LeavesNoTrace(t *testing.T) {
	n := netnstest.New(t)
	n.Do(t, func() error {
		if err := pair.Probe(t.Context(), netkit.Devices); err != nil && !errors.Is(err, ifdriver.ErrUnsupported) {
			t.Errorf("netkit: %v", err)
		}
		return pair.Probe(t.Context(), veth.Devices)
	})
	if got := n.Links(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pair.Probe(over, veth.Devices); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestPair_OtherKindPresent_NoConflict is about a setting that was changed: what
// one kind has left makes room for the other, and neither takes it for its own.
func TestPair_OtherKindPresent_NoConflict(t *testing.T) {
	need(t, netkit.Devices)
	for _, two := range [][2]pair.Devices{{veth.Devices, netkit.Devices}, {netkit.Devices, veth.Devices}} {
		old, kind := two[0], two[1]
		t.Run(fmt.Sprintf("%s after %s", kind.Kind, old.Kind), func(t *testing.T) {
			n, pod := newNode(t, kind), netnstest.New(t)
			before := node{Namespace: n.Namespace}
			n.Do(t, func() (err error) {
				before.attacher, err = pair.New(old, hostMAC)
				return err
			})
			t.Cleanup(before.attacher.Close)
			s := spec(pod)
			s.PodUID, s.Network = "uid", "alioth"
			if _, err := before.attacher.Attach(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if _, err := n.attacher.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) {
				t.Errorf("the other kind's pair passes the check: %v", err)
			}
			if got, err := n.attacher.List(t.Context()); err != nil || len(got) != 0 {
				t.Errorf("the other kind's pair is listed: %v, %v", got, err)
			}
			made, err := n.attacher.Attach(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Link(t, made.HostIfName).Type(); got != string(kind.Kind) {
				t.Errorf("the host end is a %s", got)
			}
			if _, err := n.attacher.Check(t.Context(), s); err != nil {
				t.Error(err)
			}
			if err := before.attacher.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
				t.Error(err)
			}
			if got := append(n.Links(t), pod.Links(t)...); len(got) != 0 {
				t.Errorf("%v are left", got)
			}
		})
	}
}

// TestNetkit_PodWithoutPrograms_NothingPasses shows that a netkit is closed
// for the moment between the device and its program, and should the program go.
func TestNetkit_PodWithoutPrograms_NothingPasses(t *testing.T) {
	need(t, netkit.Devices)
	n, pod := newNode(t, netkit.Devices), netnstest.New(t)
	s := spec(pod)
	made, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	dropped := func() uint64 {
		return pod.Link(t, s.IfName).Attrs().Statistics.TxDropped
	}
	before := dropped()
	pod.Do(t, func() error { return raw(s.IfName, append(made.HostMAC, make([]byte, 54)...)) })
	if got := dropped(); got == before {
		t.Error("the pod's end dropped nothing")
	}
	if got := n.Link(t, made.HostIfName).Attrs().Statistics.RxPackets; got != 0 {
		t.Errorf("the host end received %d packets", got)
	}
	host := n.Link(t, made.HostIfName).(*netlink.Netkit)
	if host.SupportsScrub() && (host.Scrub != netlink.NETKIT_SCRUB_DEFAULT || host.PeerScrub != netlink.NETKIT_SCRUB_DEFAULT) {
		t.Errorf("marks cross between pod and node: %+v", host)
	}
}

// raw sends a frame out of a device of the calling thread's namespace. A drop by the device is
// not an error.
func raw(device string, frame []byte) error {
	fd, err := capture(device)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	return nil
}
