// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package fullnode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/nodes"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// daemonCosts measures how the daemon takes 5,000 Services, and a change of one. The
// other node's kube-proxy, which takes all changes too, is not to be measured with it.
func (s *servicesRig) daemonCosts(ctx context.Context) error {
	s.proxy.Kill()
	first := figures.NewRow("first pass, maps empty", "s", "%.2f", figures.Bar{AtMost: 2})
	thorough := figures.NewRow("a pass that looks at everything", "s", "%.2f")
	p50 := figures.NewRow("an EndpointSlice changes, pass p50", "ms", "%.2f")
	p99 := figures.NewRow("  p99", "ms", "%.2f", figures.Bar{AtMost: 5})
	seen50 := figures.NewRow("  from the API's answer until it is in the maps, p50", "ms", "%.2f")
	seen99 := figures.NewRow("  p99", "ms", "%.2f")
	for round := range s.rounds {
		s.full.Kill()
		if err := s.full.Forget(); err != nil {
			return err
		}
		if _, err := s.full.Start(ctx); err != nil {
			return err
		}
		_, seconds, err := s.passes(ctx)
		if err != nil {
			return err
		}
		first.Add(figures.Alioth, seconds)
		passes, seen, err := s.changes(ctx)
		if err != nil {
			return err
		}
		p50.Add(figures.Alioth, figures.Milliseconds(passes.P50))
		p99.Add(figures.Alioth, figures.Milliseconds(passes.P99))
		seen50.Add(figures.Alioth, figures.Milliseconds(seen.P50))
		seen99.Add(figures.Alioth, figures.Milliseconds(seen.P99))
		s.full.Kill()
		if _, err := s.full.Start(ctx); err != nil {
			return err
		}
		if _, seconds, err = s.passes(ctx); err != nil {
			return err
		}
		thorough.Add(figures.Alioth, seconds)
		s.step(fmt.Sprintf("the daemon, round %d of %d: a change %s, p99 %s", round+1, s.rounds, passes.P50, passes.P99))
	}
	title := fmt.Sprintf("The daemon of a node with %d Services of %d backends", manyServices, serviceBackends)
	return figures.Print(s.out, title, []string{figures.Alioth}, []*figures.Row{first, thorough, p50, p99, seen50, seen99})
}

// changes changes slices one by one, and returns the times of the passes that they
// took and the times from the API's answer to the row in the map.
func (s *servicesRig) changes(ctx context.Context) (passes, seen report.Quantiles, err error) {
	reader, err := datapath.OpenReader(s.full.PinDir())
	if err != nil {
		return passes, seen, err
	}
	defer reader.Close()
	if err := s.rest(ctx); err != nil {
		return passes, seen, err
	}
	var took, until []time.Duration
	for range serviceChanges {
		s.turn++
		countBefore, before, err := s.passes(ctx)
		if err != nil {
			return passes, seen, err
		}
		visible, err := s.change(ctx, reader, 1+s.turn%(manyServices-1), s.turn)
		if err != nil {
			return passes, seen, err
		}
		count, after, err := s.passes(ctx)
		if err != nil {
			return passes, seen, err
		}
		until = append(until, visible)
		if count > countBefore { // the pass has been counted already
			took = append(took, time.Duration((after-before)/(count-countBefore)*float64(time.Second)))
		}
	}
	return report.QuantilesOf(took), report.QuantilesOf(until), nil
}

// change gives a Service other backends, and returns how long it took until the maps
// had them.
func (s *servicesRig) change(ctx context.Context, reader *datapath.Reader, i, turn int) (time.Duration, error) {
	key := types.NamespacedName{Namespace: manyNamespace, Name: serviceName(i)}
	var service corev1.Service
	var slice discoveryv1.EndpointSlice
	if err := errors.Join(s.api.Get(ctx, key, &service), s.api.Get(ctx, key, &slice)); err != nil {
		return 0, fmt.Errorf("read Service %s: %w", key, err)
	}
	vip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return 0, fmt.Errorf("read the address of %s: %w", key, err)
	}
	want := backendsAt(i + 7*turn)
	patch := client.MergeFrom(slice.DeepCopy())
	slice.Endpoints = endpointsAt(want)
	if err := s.api.Patch(ctx, &slice, patch); err != nil {
		return 0, fmt.Errorf("change EndpointSlice %s: %w", key, err)
	}
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for began := time.Now(); ; {
		got, err := reader.Backends(5000+manyVPC, vip, report.PortRoundTrip, unix.IPPROTO_TCP)
		if err != nil {
			return 0, err
		}
		if slices.EqualFunc(got, want, func(b state.Backend, ip netip.Addr) bool { return b.IP == ip }) {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the backends of %s: %w", key, context.Cause(ctx))
		case <-again.C:
		}
	}
}

// mapCosts reports how much of the kernel's memory the Services take.
func (s *servicesRig) mapCosts(context.Context) error {
	taken := map[*nodes.Node]uint64{}
	for _, node := range []*nodes.Node{s.empty, s.full} {
		reader, err := datapath.OpenReader(node.PinDir())
		if err != nil {
			return err
		}
		bytes, known, err := reader.ServiceMemory()
		if err = errors.Join(err, reader.Close()); err != nil {
			return err
		}
		if !known {
			s.step("the kernel does not say what maps take")
			return nil
		}
		taken[node] = bytes
	}
	const mib = 1 << 20
	empty := figures.NewRow("maps of services, 5 Services", "MiB", "%.1f")
	each := figures.NewRow(fmt.Sprintf("  for each further one of %d backends", serviceBackends), "KiB", "%.2f")
	empty.Add(figures.Alioth, float64(taken[s.empty])/mib)
	each.Add(figures.Alioth, float64(taken[s.full]-taken[s.empty])/(manyServices-fewServices)/1024)
	return figures.Print(s.out, "Memory of the kernel", []string{figures.Alioth}, []*figures.Row{empty, each})
}
