// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package fullnode

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/bench/figures"
)

// nodePortCosts gives all Services node ports, and measures the whole passes that one
// changed EndpointSlice takes then: the plan, the maps and the node's packet filter.
func (s *servicesRig) nodePortCosts(ctx context.Context) error {
	s.step(fmt.Sprintf("giving %d Services node ports", manyServices))
	if err := s.publish(ctx); err != nil {
		return err
	}
	p50 := figures.NewRow("an EndpointSlice changes, whole pass p50", "ms", "%.2f")
	p99 := figures.NewRow("  p99", "ms", "%.2f", figures.Bar{AtMost: 5})
	for round := range s.rounds {
		passes, _, err := s.changes(ctx)
		if err != nil {
			return err
		}
		p50.Add(figures.Alioth, figures.Milliseconds(passes.P50))
		p99.Add(figures.Alioth, figures.Milliseconds(passes.P99))
		s.step(fmt.Sprintf("node ports, round %d of %d: a change %s, p99 %s", round+1, s.rounds, passes.P50, passes.P99))
	}
	title := fmt.Sprintf(
		"The daemon of a node with %d Services of %d backends, all with a node port",
		manyServices,
		serviceBackends,
	)
	return figures.Print(s.out, title, []string{figures.Alioth}, []*figures.Row{p50, p99})
}

// publish makes all Services of the full node NodePort Services, and returns once the
// node's packet filter has the ports of all.
func (s *servicesRig) publish(ctx context.Context) error {
	ports := make([]int32, manyServices)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := 1; i < manyServices; i++ {
		group.Go(func() (err error) {
			ports[i], err = s.nodePort(groupCtx, serviceName(i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		missing, err := s.unpublished(ctx, ports[1:])
		if err != nil || missing == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d node ports: %w", missing, context.Cause(ctx))
		case <-again.C:
		}
	}
}

// nodePort makes a Service one with a node port, which it returns.
func (s *servicesRig) nodePort(ctx context.Context, name string) (int32, error) {
	var service corev1.Service
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: manyNamespace, Name: name}, &service); err != nil {
		return 0, fmt.Errorf("read Service %s: %w", name, err)
	}
	patch := client.MergeFrom(service.DeepCopy())
	service.Spec.Type = corev1.ServiceTypeNodePort
	if err := s.api.Patch(ctx, &service, patch); err != nil {
		return 0, fmt.Errorf("give Service %s a node port: %w", name, err)
	}
	return service.Spec.Ports[0].NodePort, nil
}

// number is a number in the output of nft.
var number = regexp.MustCompile(`\b[0-9]{5}\b`)

// unpublished returns how many ports the full node's packet filter does not have.
func (s *servicesRig) unpublished(ctx context.Context, ports []int32) (missing int, err error) {
	out, err := exec.CommandContext(ctx, "nsenter", "--net="+s.full.NetNS(), "nft", "list", "table", "inet", "alioth").
		Output()
	if err != nil {
		return 0, fmt.Errorf("list the node's packet filter: %w", err)
	}
	has := map[string]bool{}
	for _, text := range number.FindAllString(string(out), -1) {
		has[text] = true
	}
	for _, port := range ports {
		if !has[strconv.Itoa(int(port))] {
			missing++
		}
	}
	return missing, nil
}
