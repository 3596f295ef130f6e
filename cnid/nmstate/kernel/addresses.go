// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// addresses returns the addresses of all devices.
func (k *Kernel) addresses(ctx context.Context, links []convert.Link) (map[uint32]convert.Addresses, error) {
	messages, err := k.dump(ctx, unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return convert.ReadAddresses(messages, links), nil
}

func (k *Kernel) addAddress(ctx context.Context, step plan.AddAddress) error {
	l, err := k.link(ctx, step.Name)
	if err != nil {
		return err
	}
	request, err := convert.AddressRequest(l, step.Address)
	if err != nil {
		return err
	}
	err = k.tell(ctx, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request...)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	list, listErr := k.addresses(ctx, []convert.Link{l})
	if listErr != nil {
		return listErr
	}
	want := netip.MustParsePrefix(fmt.Sprintf("%s/%d", step.Address.IP, step.Address.PrefixLength))
	for _, a := range append(list[l.Index].IPv4, list[l.Index].IPv6...) {
		if a.IP == want.Addr().String() && a.PrefixLength == want.Bits() {
			return nil
		}
	}
	return fmt.Errorf(
		"%s has the address with another prefix length, or made it by itself: remove it first: %w",
		step.Name,
		err,
	)
}

func (k *Kernel) removeAddress(ctx context.Context, step plan.RemoveAddress) error {
	l, err := k.link(ctx, step.Name)
	if errors.Is(err, errNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	request, err := convert.AddressRequest(l, step.Address)
	if err != nil {
		return err
	}
	err = k.tell(ctx, unix.RTM_DELADDR, 0, request...)
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return k.removePeer(ctx, l, step.Address)
	}
	return unless(err, unix.ENODEV)
}

// removePeer removes an address with a peer, if there is one. The kernel looks for it by its
// peer, which no document has.
func (k *Kernel) removePeer(ctx context.Context, l convert.Link, gone document.Address) error {
	ip, err := netip.ParseAddr(gone.IP)
	if err != nil {
		return fmt.Errorf("address.ip: %w", err)
	}
	family := unix.AF_INET
	if ip.Is6() {
		family = unix.AF_INET6
	}
	return k.removeAddresses(
		ctx,
		l.Index,
		family,
		func(a convert.Address) bool { return a.IP == ip && a.Bits == gone.PrefixLength },
	)
}

// unless returns an error, and nil if the error is one of the harmless ones.
func unless(err error, well ...error) error {
	for _, w := range well {
		if errors.Is(err, w) {
			return nil
		}
	}
	return err
}
