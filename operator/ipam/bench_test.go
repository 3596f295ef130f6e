// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

// BenchmarkChooseAndAssume fills a large dual-stack subnet, one pod after
// the other, with 30,000 addresses held to start with.
func BenchmarkChooseAndAssume(b *testing.B) {
	s, err := store.NewCentral()
	if err != nil {
		b.Fatal(err)
	}
	claim := func(i int) error {
		uid := fmt.Sprintf("pod-%d", i)
		return s.Update(func(tx store.Tx) error {
			result, err := ipam.Choose(tx, ipam.Request{
				VPC: "blue", Node: fmt.Sprintf("n%d", i%100), Attachment: "eth0",
				Holder: store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: uid, UID: uid},
			})
			if err != nil {
				return err
			}
			return ipam.Assume(tx, result)
		})
	}
	err = s.Update(func(tx store.Tx) error {
		return put(tx, &store.VPC{Name: "blue", VNI: 7}, subnet(1, "net1", "10.0.0.0/8", "fd00::/64"))
	})
	if err != nil {
		b.Fatal(err)
	}
	held := 0
	for ; held < 30000; held++ {
		if err := claim(held); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		held++
		if err := claim(held); err != nil {
			b.Fatal(err)
		}
	}
}
