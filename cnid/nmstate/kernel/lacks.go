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
)

// ErrLacks is of a kernel that has no devices of a type.
var ErrLacks = errors.New("this kernel has no devices of that type")

// Lacks returns an ErrLacks with the remedy if the kernel has no devices of a type of documents,
// and nil for a type that the engine does not make. The kernel loads the module if it can.
func (k *Kernel) Lacks(ctx context.Context, name string) error {
	asked, ok := kindByName(name)
	if !ok {
		return nil
	}
	// The kernel looks for the driver, and then refuses the MTU.
	const impossible = 1<<32 - 1
	info := nested(unix.IFLA_LINKINFO, []*nl.RtAttr{zeroEnded(nl.IFLA_INFO_KIND, asked.driver)})
	nobody := "al" + rand.Text()[:unix.IFNAMSIZ-len("al")-1]
	err := k.tell(ctx, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		zeroEnded(unix.IFLA_IFNAME, nobody), sized(unix.IFLA_MTU, 4, uint32(impossible)), info)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: load the module %s, or use a kernel with CONFIG_%s", ErrLacks, asked.module, asked.option)
	case err == nil:
		return fmt.Errorf("the kernel has made the device %s with an impossible MTU: delete it", nobody)
	default:
		return ctx.Err() // It refuses the device for another reason, so it knows the type.
	}
}
