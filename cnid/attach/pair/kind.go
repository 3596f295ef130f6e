// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Kind is what a pair consists of, by the kernel's name of such devices.
type Kind string

const (
	// Veth is two virtual Ethernet devices. What the pod sends, the host end
	// receives, and programs meet it there.
	Veth Kind = "veth"
	// Netkit is two devices with a place for programs that run while the pod's
	// end sends, which spares what they redirect the host end's queue. New in
	// Linux 6.7, with Ethernet addresses at creation somewhat later, and an
	// option of a kernel's build.
	Netkit Kind = "netkit"
)

// ends returns a pair that is to be made.
func (k Kind) ends(host, pod netlink.LinkAttrs) netlink.Link {
	if k == Veth {
		return &netlink.Veth{
			LinkAttrs: host, PeerName: pod.Name, PeerHardwareAddr: pod.HardwareAddr, PeerMTU: uint32(pod.MTU),
			PeerTxQLen: -1, PeerNamespace: pod.Namespace,
		}
	}
	pair := &netlink.Netkit{
		LinkAttrs: host,
		// Whole frames, so that whatever holds for a veth holds here.
		Mode: netlink.NETKIT_MODE_L2,
		// To the pod goes what is sent out of the host end, as with a veth; from
		// the pod nothing, for as long as no program decides about it.
		Policy: netlink.NETKIT_POLICY_FORWARD, PeerPolicy: netlink.NETKIT_POLICY_BLACKHOLE,
		// No mark crosses, in either direction.
		Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	pair.SetPeerAttrs(&pod)
	return pair
}

// ErrUnsupported says that the kernel has no such devices, or not with all that
// is needed of them.
var ErrUnsupported = errors.New("this kernel has no such devices")

// Probe tells whether the kernel has pairs of this kind: it makes one, in a
// network namespace that ends with it. A kernel that has none gives an
// ErrUnsupported.
func Probe(ctx context.Context, kind Kind) error {
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the function, and the namespace
		// with the thread.
		runtime.LockOSThread()
		result <- kind.probe()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-result:
		if err != nil {
			return fmt.Errorf("try a pair of %s devices: %w", kind, err)
		}
		return nil
	}
}

// probe makes a pair in a namespace of the calling thread's own.
func (k Kind) probe() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	host, pod := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	host.Name, host.HardwareAddr = "host", net.HardwareAddr{2, 0, 0, 0, 0, 1}
	pod.Name, pod.HardwareAddr = "pod", net.HardwareAddr{2, 0, 0, 0, 0, 2}
	err := netlink.LinkAdd(k.ends(host, pod))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
