// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/reach"
)

// maxAddresses bounds the addresses of a name that are asked.
const maxAddresses = 4

// reached returns nil if one of the addresses of a target answers.
func reached(ctx context.Context, t reach.Target) error {
	addresses, err := addressesOf(ctx, t.Host)
	if err != nil {
		return err
	}
	var errs []error
	for n, ip := range addresses {
		err := reach.OneHost(ip)
		if err == nil {
			err = answers(ctx, ip.Unmap(), t.Port, len(addresses)-n)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	// A resolver may return the addresses in another order the next time.
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	return list[:min(len(list), maxAddresses)], nil
}

// answers asks an address, with the share of the time that it has beside others. It sends an
// echo request for the port 0, and opens and closes a connection for another one.
func answers(ctx context.Context, ip netip.Addr, port uint16, others int) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(others))
		defer cancel()
	}
	if port == 0 {
		return request{to: ip}.send(ctx)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip, port).String())
	if err != nil {
		return err
	}
	return conn.Close()
}
