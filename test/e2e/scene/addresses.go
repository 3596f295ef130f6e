// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// Held returns the addresses that Address objects hold for a holder, sorted.
func (s *Scene) Held(ctx context.Context, holder types.UID) ([]netip.Addr, error) {
	var list v1alpha1.AddressList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var held []netip.Addr
	for _, address := range list.Items {
		if address.Spec.Holder.UID != string(holder) {
			continue
		}
		ip, err := netip.ParseAddr(address.Spec.IP)
		if err != nil {
			return nil, fmt.Errorf("read Address %s: %w", address.Name, err)
		}
		held = append(held, ip)
	}
	slices.SortFunc(held, netip.Addr.Compare)
	return held, nil
}
