// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// networkAddresses are the addresses that networkCreators claim at once in one network
// outside of every VPC.
const networkAddresses, networkCreators = 1000, 20

// networkClaims measures how fast addresses of one network are chosen and created. A bare
// client creates as many objects with as many writers, and chooses nothing.
func (b *Bench) networkClaims(ctx context.Context, c *control) ([]*figures.Row, error) {
	rate := figures.NewRow(
		fmt.Sprintf("network addresses per second, %d by %d creators", networkAddresses, networkCreators),
		"1/s",
		"%.0f",
		figures.Bar{Reference: bareClient, AtLeast: 0.75},
	)
	again := figures.NewRow("  creations that found the name in use", "", "%.0f")
	writer, err := c.AsOperator()
	if err != nil {
		return nil, err
	}
	for round := range min(claimRounds, b.rounds) {
		n := rangeOfBench(fmt.Sprintf("bench-%d", round))
		counting := &countingCreator{Client: writer}
		took, err := claimInNetwork(ctx, counting, n)
		if err != nil {
			return nil, err
		}
		bare, err := createBare(ctx, writer, n, fmt.Sprintf("bare-%d", round))
		if err != nil {
			return nil, err
		}
		rate.Add(figures.Alioth, networkAddresses/took.Seconds())
		rate.Add(bareClient, networkAddresses/bare.Seconds())
		again.Add(figures.Alioth, float64(counting.created.Load()-networkAddresses))
	}
	return []*figures.Row{rate, again}, nil
}

func rangeOfBench(uid string) *ipam.NetworkRange {
	return &ipam.NetworkRange{
		NetworkRef: store.NetworkRef{Group: "danm.k8s.io", Kind: "DanmNet", Namespace: "bench", Name: uid, UID: uid},
		V4:         ipam.Range{Prefix: netip.MustParsePrefix("10.240.0.0/16")},
	}
}

// countingCreator counts creations.
type countingCreator struct {
	client.Client
	created atomic.Int64
}

// Create implements client.Client.
func (c *countingCreator) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	c.created.Add(1)
	return c.Client.Create(ctx, object, opts...)
}

// claimInNetwork claims an address for each of as many pods, which only the store has.
func claimInNetwork(ctx context.Context, writer client.Client, n *ipam.NetworkRange) (time.Duration, error) {
	rows, err := store.NewCentral()
	if err != nil {
		return 0, err
	}
	podOf := func(i int) *store.Pod {
		name := fmt.Sprintf("pod-%d", i)
		return &store.Pod{
			Meta:      store.Meta{UID: n.UID + "-" + name},
			Namespace: "bench",
			Name:      name,
			Node:      fmt.Sprintf("node-%d", i/podsPerNode),
		}
	}
	err = rows.Update(func(tx store.Tx) error {
		var failed error
		for i := range networkAddresses {
			failed = errors.Join(failed, store.PutPod(tx, podOf(i)))
		}
		return failed
	})
	if err != nil {
		return 0, err
	}
	claimer := &claim.Claimer{
		Client: writer, Live: writer, Store: rows.Store, Resting: &ipam.Resting{}, Term: operatortest.Term(true),
		Feed: feed.New(nil, logr.Discard()), Clock: clock.RealClock{},
	}
	return eachOf(ctx, networkAddresses, func(ctx context.Context, i int) error {
		pod := podOf(i)
		_, err := claimer.Claim(ctx, ipam.Request{
			Network: n, Families: ipam.Families{V4: true}, Node: pod.Node, Attachment: "net1", Holder: pod.AsHolder(),
		}, nil)
		return err
	})
}

// createBare creates the objects of a network for another one, and deletes both.
func createBare(ctx context.Context, writer client.Client, n *ipam.NetworkRange, uid string) (time.Duration, error) {
	var made v1alpha1.AddressList
	if err := writer.List(ctx, &made, client.MatchingFields{"spec.network.name": n.Name}); err != nil {
		return 0, fmt.Errorf("list the addresses of %s: %w", n, err)
	}
	if len(made.Items) != networkAddresses {
		return 0, fmt.Errorf("%s has %d addresses, want %d", n, len(made.Items), networkAddresses)
	}
	bare := make([]*v1alpha1.Address, len(made.Items))
	for i := range made.Items {
		bare[i] = &v1alpha1.Address{Spec: *made.Items[i].Spec.DeepCopy()}
		bare[i].Spec.Network.UID, bare[i].Spec.Network.Name = uid, uid
		bare[i].Name = v1alpha1.AddressName(bare[i].Spec.Domain(), netip.MustParseAddr(bare[i].Spec.IP))
	}
	took, err := eachOf(ctx, len(bare), func(ctx context.Context, i int) error { return writer.Create(ctx, bare[i]) })
	if err != nil {
		return took, err
	}
	_, err = eachOf(ctx, len(bare), func(ctx context.Context, i int) error {
		return errors.Join(writer.Delete(ctx, bare[i], client.Preconditions{UID: &bare[i].UID}),
			writer.Delete(ctx, &made.Items[i], client.Preconditions{UID: &made.Items[i].UID}))
	})
	return took, err
}

// eachOf calls do for each number below n, networkCreators at once, and returns how long
// all took.
func eachOf(ctx context.Context, n int, do func(ctx context.Context, i int) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(networkCreators)
	for i := range n {
		group.Go(func() error { return do(groupCtx, i) })
	}
	err := group.Wait()
	return time.Since(began), err
}
