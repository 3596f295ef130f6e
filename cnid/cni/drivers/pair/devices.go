// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Devices describes the pairs of a driver.
type Devices struct {
	// Kind is the kernel's name of such devices too.
	Kind ifdriver.Kind
	// Hook is the place of the datapath's programs on the pod's packets.
	Hook ifdriver.Hook
	// Requires describes the kernels that have such devices; "": all have them.
	Requires string
	// Ends returns the description of a new pair.
	Ends func(host, pod netlink.LinkAttrs) netlink.Link
}

// Type returns the driver of such pairs.
func (d Devices) Type() ifdriver.Type {
	return ifdriver.Type{Kind: d.Kind, Capabilities: d.capabilities(), Pair: true, Maker: d}
}

// Probe implements ifdriver.Maker.
func (d Devices) Probe(ctx context.Context) error {
	if d.Requires == "" {
		return nil
	}
	return Probe(ctx, d)
}

// Open implements ifdriver.Maker.
func (d Devices) Open(node ifdriver.Node) (ifdriver.Driver, error) { return New(d, node.MAC) }

func (d Devices) capabilities() ifdriver.Capabilities {
	return ifdriver.Capabilities{HostEnd: true, Hook: d.Hook, FollowsMTU: true, Restorable: true}
}

// Probe reports whether the kernel has pairs of such devices: it makes one, in a
// network namespace that ends with it. A kernel that has none gives an
// ifdriver.ErrUnsupported.
func Probe(ctx context.Context, d Devices) error {
	err := podside.Try(ctx, d.probe)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("try a pair of %s devices: %w", d.Kind, err)
	}
	return err
}

// probe makes a pair in a namespace of the calling thread's own.
func (d Devices) probe() error {
	host, pod := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	host.Name, host.HardwareAddr = "host", net.HardwareAddr{2, 0, 0, 0, 0, 1}
	pod.Name, pod.HardwareAddr = "pod", net.HardwareAddr{2, 0, 0, 0, 0, 2}
	err := netlink.LinkAdd(d.Ends(host, pod))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %w; they require %s", ifdriver.ErrUnsupported, err, d.Requires)
	}
	return err
}
