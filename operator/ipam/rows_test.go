// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

func ips(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// subnet makes a Ready subnet of VPC blue whose gateways are the first
// addresses. The order of calls in a test is the order of age.
func subnet(age int, name string, cidrs ...string) *store.Subnet {
	row := &store.Subnet{
		Meta: store.Meta{UID: name, Created: epoch.Add(time.Duration(age) * time.Second)},
		Name: name, ShortName: name, VPC: "blue", Ready: true,
	}
	for _, cidr := range cidrs {
		prefix := netip.MustParsePrefix(cidr)
		row.Prefixes = append(row.Prefixes, prefix)
		row.Gateways = append(row.Gateways, prefix.Addr().Next())
	}
	return row
}

func withUID(row *store.Subnet, uid string) *store.Subnet {
	row.UID = uid
	return row
}

// held makes an address that a live pod of its own holds.
func held(vpc, subnet, ip, node string) *store.Address {
	addr := netip.MustParseAddr(ip)
	name := v1alpha1.AddressName(vpc, addr)
	return &store.Address{
		Meta: store.Meta{UID: name}, Name: name, VPC: vpc, Subnet: subnet, IP: addr, Node: node,
		Holder:     store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "holder", UID: "holder"},
		Attachment: "eth0", Set: []netip.Addr{addr},
	}
}

// put writes rows of any kind.
func put(tx store.Tx, rows ...any) error {
	for _, row := range rows {
		var err error
		switch row := row.(type) {
		case *store.VPC:
			err = store.PutVPC(tx, row)
		case *store.Subnet:
			err = store.PutSubnet(tx, row)
		case *store.Node:
			err = store.PutNode(tx, row)
		case *store.Address:
			err = store.PutAddress(tx, row)
		case *store.Pod:
			err = store.PutPod(tx, row)
		case *store.VNIClaim:
			err = store.PutVNIClaim(tx, row)
		case *external.Pool:
			err = external.PutPool(tx, row)
		case *external.Address:
			err = external.PutAddress(tx, row)
		default:
			err = fmt.Errorf("unknown row %T", row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newStore holds VPC blue and the rows.
func newStore(t *testing.T, rows ...any) *store.Store {
	t.Helper()
	s, err := store.NewCentral()
	if err != nil {
		t.Fatal(err)
	}
	update(t, s.Store, func(tx store.Tx) error {
		return put(tx, append([]any{&store.VPC{Name: "blue", VNI: 7}, &store.VPC{Name: "red", VNI: 8}}, rows...)...)
	})
	return s.Store
}

func update(t *testing.T, s *store.Store, fn func(tx store.Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func choose(s *store.Store, req ipam.Request) (result ipam.Result, err error) {
	if req.VPC == "" {
		req.VPC = "blue"
	}
	if req.Holder.UID == "" {
		req.Holder = store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "new", UID: "new"}
	}
	if req.Attachment == "" {
		req.Attachment = "eth0"
	}
	s.View(func(tx store.ReadTx) { result, err = ipam.Choose(tx, req) })
	return result, err
}

// unexamined makes a subnet one without a verdict: nothing is known of it yet.
func unexamined(row *store.Subnet) *store.Subnet {
	row.Ready, row.Reason, row.Message = false, "", ""
	return row
}

// examinedEarly makes a subnet one whose verdict is older than the readiness of its VPC.
func examinedEarly(row *store.Subnet) *store.Subnet {
	row.Ready, row.Reason, row.Message = false, v1alpha1.VPCNotReadyReason, `VPC "blue" is not ready: see its Ready condition`
	return row
}

func notReady(row *store.Subnet, message string) *store.Subnet {
	row.Ready, row.Reason, row.Message = false, v1alpha1.OverlapReason, message
	return row
}
