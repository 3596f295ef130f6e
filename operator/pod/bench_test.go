// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

// BenchmarkAPodThatIsAsDecided does the work of a restarted operator for most pods: it compares the
// allocation status of each with its Addresses.
func BenchmarkAPodThatIsAsDecided(b *testing.B) {
	rows := world()
	var pods []*store.Pod
	for i := range 200 {
		pod := operatortest.Pod("blue", "a", fmt.Sprintf("p%d", i), "n", "")
		four, six := fmt.Sprintf("10.0.1.%d", 2+i), fmt.Sprintf("fd00:0:0:1::%x", 2+i)
		text, err := annotations.FormatAttachments([]netif.Interface{{
			Name: "eth0", Kind: netif.KindPair, Network: "a/n", VPC: "v", Subnet: "s1", Addresses: operatortest.Prefixes(four+"/24", six+"/64"),
		}})
		if err != nil {
			b.Fatal(err)
		}
		pod.Attachments, pod.NetworkReady, pod.Reason = text, true, v1alpha1.AttachedReason
		pods = append(pods, pod)
		rows = append(rows, pod, operatortest.Address("v", "s1", four, pod, six), operatortest.Address("v", "s1", six, pod, four))
	}
	operatortest.New(b, rows...).View(func(tx store.ReadTx) {
		for i := 0; b.Loop(); i++ {
			if d := decide(tx, pods[i%len(pods)], primary()); !d.isNothing() {
				b.Fatalf("decided %+v", d)
			}
		}
	})
}
