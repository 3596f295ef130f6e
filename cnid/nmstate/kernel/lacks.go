// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
)

func (k *Kernel) request(ctx context.Context, want document.Interface, now *convert.Link) convert.Request {
	return convert.Request{
		Want:  want,
		Now:   now,
		Named: func(attribute uint16, name string) (*nl.RtAttr, error) { return k.named(ctx, attribute, name) },
	}
}

// ErrLacks reports that the kernel has no devices of a type.
var ErrLacks = errors.New("this kernel has no devices of that type")

// Lacks returns an ErrLacks with the remedy if the kernel has no devices of a type of documents,
// and nil for a type that the engine does not make. The kernel loads the module if it can.
func (k *Kernel) Lacks(ctx context.Context, name string) error {
	asked, ok := convert.KindByName(name)
	if !ok {
		return nil
	}
	// The kernel looks for the driver, and then refuses the MTU.
	const impossible = 1<<32 - 1
	info := convert.Nested(unix.IFLA_LINKINFO, []*nl.RtAttr{convert.ZeroEnded(nl.IFLA_INFO_KIND, asked.Driver)})
	nobody := "al" + rand.Text()[:unix.IFNAMSIZ-len("al")-1]
	err := k.tell(ctx, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		convert.ZeroEnded(unix.IFLA_IFNAME, nobody), convert.Sized(unix.IFLA_MTU, 4, uint32(impossible)), info)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: load the module %s, or use a kernel with CONFIG_%s", ErrLacks, asked.Module, asked.Option)
	case err == nil:
		return fmt.Errorf("the kernel has made the device %s with an impossible MTU: delete it", nobody)
	default:
		return ctx.Err() // It refuses the device for another reason, so it knows the type.
	}
}
