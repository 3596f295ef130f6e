// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package fullnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/metrics"
	"github.com/alioth-net/alioth/test/bench/nodes"
	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	// scaleVPCs have an attachment on one node each, and scaleAddresses in all.
	scaleVPCs, scaleAddresses = 1000, 10000
	// scaleFar are the other nodes, which exist in the API only.
	scaleFar = 50
	// scaleChanges is how many addresses are added one by one in a round.
	scaleChanges = 40
	// writers is how many requests fill the API server at a time.
	writers = 16
	// scaleSetUp bounds the set-up.
	scaleSetUp = 10 * time.Minute
	// Paths of the table: two pods on a node with little else and on the full one.
	emptyNode, fullNode = "2 attachments", "1,000 VPCs"
)

// Scale measures the costs of a node that has very many VPCs: the daemon, as a process with a real
// API server, and the packets of two of its pods.
func (b *Bench) Scale(ctx context.Context) (err error) {
	s, err := b.newScaleRig(ctx)
	defer func() { err = errors.Join(err, s.remove(ctx)) }()
	if err != nil {
		return err
	}
	if err := s.setUp(ctx); err != nil {
		return err
	}
	rows, err := s.daemonCosts(ctx)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("The daemon of a node with %d addresses in %d VPCs", scaleAddresses, scaleVPCs)
	if err := figures.Print(b.out, title, []string{figures.Alioth}, rows); err != nil {
		return err
	}
	return s.packetCosts(ctx)
}

// scaleRig is an API server with a full node and another one.
type scaleRig struct {
	*Bench
	server      *apiserver.Server
	api         client.Client
	folder      string
	full, empty *nodes.Node
	tool        *packets.Tool
	// next numbers the addresses that are added.
	next int
}

func (b *Bench) newScaleRig(ctx context.Context) (s *scaleRig, err error) {
	s = &scaleRig{Bench: b}
	if s.folder, err = os.MkdirTemp("", "alioth-bench-"); err != nil {
		return s, fmt.Errorf("make a folder: %w", err)
	}
	for name, path := range map[string]string{"alioth-cnid": "./cmd/alioth-cnid", "testtool": "./test/testtool"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(s.folder, name), path)
		build.Dir, build.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return s, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	s.tool = packets.NewTool(filepath.Join(s.folder, "testtool"))
	b.step("starting an API server without nodes")
	if s.server, err = apiserver.New(ctx); err != nil {
		return s, err
	}
	scheme := runtime.NewScheme()
	err = errors.Join(
		clientgoscheme.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme),
		arktosv1.AddToScheme(scheme),
	)
	if err != nil {
		return s, fmt.Errorf("register API kinds: %w", err)
	}
	if s.api, err = client.New(s.server.Config(), client.Options{Scheme: scheme}); err != nil {
		return s, fmt.Errorf("make a client: %w", err)
	}
	program := filepath.Join(s.folder, "alioth-cnid")
	if s.full, err = nodes.New(ctx, "alioth-bench-full", "192.0.2.1", program, s.server.Config()); err != nil {
		return s, err
	}
	s.empty, err = nodes.New(ctx, "alioth-bench-empty", "192.0.2.2", program, s.server.Config())
	return s, err
}

// remove ends and removes everything, however little of it was made.
func (s *scaleRig) remove(ctx context.Context) error {
	var errs []error
	if s.tool != nil {
		errs = append(errs, s.tool.Stop())
	}
	for _, node := range []*nodes.Node{s.full, s.empty} {
		if node != nil {
			errs = append(errs, node.Remove(ctx))
		}
	}
	if s.server != nil {
		s.server.Stop()
	}
	return errors.Join(append(errs, os.RemoveAll(s.folder))...)
}

// setUp does the work of the operator, and attaches the pods: one of each VPC to the full node, and
// of the last one two; two of a VPC of their own to the other.
func (s *scaleRig) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scaleSetUp)
	defer cancel()
	addresses := map[string]string{s.full.Name: s.full.Address, s.empty.Name: s.empty.Address}
	for i := range scaleFar {
		addresses[farNode(i)] = fmt.Sprintf("192.0.2.%d", 100+i)
	}
	for name, address := range addresses {
		if err := s.create(ctx, scaleNode(name, address)); err != nil {
			return err
		}
	}
	for _, node := range []*nodes.Node{s.empty, s.full} {
		if _, err := node.Start(ctx); err != nil {
			return err
		}
	}
	s.step(fmt.Sprintf("creating %d addresses in %d VPCs, and attaching a pod of each", scaleAddresses, scaleVPCs))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range scaleVPCs - 1 {
		group.Go(func() error { return s.vpc(groupCtx, i, scaleAddresses/scaleVPCs, s.full, "first") })
	}
	group.Go(func() error { return s.vpc(groupCtx, scaleVPCs-1, scaleAddresses/scaleVPCs, s.full, "first", "second") })
	group.Go(func() error { return s.vpc(groupCtx, scaleVPCs, 2, s.empty, "first", "second") })
	return group.Wait()
}

func farNode(i int) string { return fmt.Sprintf("far-%d", i%scaleFar) }

func scaleNode(name, address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

// create creates an object and then its status.
func (s *scaleRig) create(ctx context.Context, obj client.Object) error {
	status := obj.DeepCopyObject().(client.Object)
	if err := s.api.Create(ctx, obj); err != nil {
		return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
	}
	status.SetResourceVersion(obj.GetResourceVersion())
	if err := s.api.Status().Update(ctx, status); err != nil {
		return fmt.Errorf("write the status of %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

func scaleVPC(i int) string { return fmt.Sprintf("scale-%d", i) }

// scaleIP is address n of a VPC; all VPCs have the same.
func scaleIP(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 10, byte(1 + n/200), byte(10 + n%200)})
}

// vpc makes a VPC with a number of addresses: the first for pods of a node, the others for pods
// elsewhere. It attaches the node's pods.
func (s *scaleRig) vpc(ctx context.Context, i, addresses int, node *nodes.Node, pods ...string) error {
	name := scaleVPC(i)
	ready := []metav1.Condition{
		{
			Type:               v1alpha1.ReadyCondition,
			Status:             metav1.ConditionTrue,
			Reason:             v1alpha1.ReadyReason,
			LastTransitionTime: metav1.Now(),
		},
	}
	for _, obj := range []client.Object{
		&v1alpha1.VPC{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.10.0.0/16"}, AllowedTenants: []string{v1alpha1.AnyTenant}},
			Status:     v1alpha1.VPCStatus{VNI: int32(5000 + i), Conditions: ready},
		},
		&v1alpha1.Subnet{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{"10.10.0.0/20"}},
			Status: v1alpha1.SubnetStatus{Conditions: ready},
		},
	} {
		if err := s.create(ctx, obj); err != nil {
			return err
		}
	}
	for n := len(pods); n < addresses; n++ {
		if err := s.address(ctx, i, n, farNode(i+n), fmt.Sprintf("far-%d-%d", i, n), "uid"); err != nil {
			return err
		}
	}
	for n, pod := range pods {
		if err := s.pod(ctx, i, n, node, pod); err != nil {
			return err
		}
	}
	return nil
}

// scaleMAC returns the address of the pod that has address n of a VPC.
func scaleMAC(i, n int) string {
	return net.HardwareAddr{2, 1, byte(i >> 8), byte(i), byte(n >> 8), byte(n)}.String()
}

// address makes a pod's claim of address n of a VPC.
func (s *scaleRig) address(ctx context.Context, i, n int, node, pod, uid string) error {
	ip := scaleIP(n)
	err := s.api.Create(ctx, &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(scaleVPC(i), ip)},
		Spec: v1alpha1.AddressSpec{
			VPC: scaleVPC(i), Subnet: scaleVPC(i), IP: ip.String(), MAC: scaleMAC(i, n), Node: node,
			Holder: v1alpha1.AddressHolder{
				Kind:      v1alpha1.HolderPod,
				Namespace: metav1.NamespaceDefault,
				Name:      pod,
				UID:       uid,
			},
			Attachment: v1alpha1.PodAttachment, Set: []string{ip.String()},
			Config: &netif.VPCConfig{}, Interfaces: []string{v1alpha1.PodAttachment},
		},
	})
	if err != nil {
		return fmt.Errorf("create address %s of %s: %w", ip, scaleVPC(i), err)
	}
	return nil
}

// pod makes a pod with address n of a VPC, in the way of the operator, and attaches it to its node.
func (s *scaleRig) pod(ctx context.Context, i, n int, node *nodes.Node, role string) error {
	name := fmt.Sprintf("%s-%d", role, i)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name,
			Annotations: map[string]string{arktosv1.ReadinessAnnotation: "true"},
		},
		Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}
	if err := s.api.Create(ctx, pod); err != nil {
		return fmt.Errorf("create pod %s: %w", name, err)
	}
	if err := s.address(ctx, i, n, node.Name, name, string(pod.UID)); err != nil {
		return err
	}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: v1alpha1.NetworkReadyCondition, Status: corev1.ConditionTrue, Reason: v1alpha1.AttachedReason,
	}}
	if err := s.api.Status().Update(ctx, pod); err != nil {
		return fmt.Errorf("write the status of pod %s: %w", name, err)
	}
	return node.Attach(ctx, pod.Namespace, name, string(pod.UID))
}

// daemonCosts measures the daemon of the full node: how it fills empty maps, how
// it takes a change, and how much memory it has.
func (s *scaleRig) daemonCosts(ctx context.Context) ([]*figures.Row, error) {
	whole := figures.NewRow("start to all programmed, maps empty", "s", "%.2f")
	first := figures.NewRow("  its first pass", "s", "%.2f", figures.Bar{AtMost: 3})
	adopting := figures.NewRow("start to all programmed, maps kept", "s", "%.2f")
	change := figures.NewRow("one address more, pass", "ms", "%.1f", figures.Bar{AtMost: 5})
	seen := figures.NewRow("  from its creation until it is in the map, p50", "ms", "%.1f")
	resident := figures.NewRow("memory", "MiB", "%.0f", figures.Bar{AtMost: 150})
	peak := figures.NewRow("  the most so far", "MiB", "%.0f", figures.Bar{AtMost: 150})
	for round := range s.rounds {
		s.full.Kill()
		took, err := s.full.Start(ctx)
		if err != nil {
			return nil, err
		}
		adopting.Add(figures.Alioth, took.Seconds())
		s.full.Kill()
		if err := s.full.Forget(); err != nil {
			return nil, err
		}
		if took, err = s.full.Start(ctx); err != nil {
			return nil, err
		}
		whole.Add(figures.Alioth, took.Seconds())
		_, seconds, err := s.passes(ctx)
		if err != nil {
			return nil, err
		}
		first.Add(figures.Alioth, seconds)
		pass, until, err := s.change(ctx)
		if err != nil {
			return nil, err
		}
		change.Add(figures.Alioth, figures.Milliseconds(pass))
		seen.Add(figures.Alioth, figures.Milliseconds(until))
		now, most, err := s.full.Memory()
		if err != nil {
			return nil, err
		}
		resident.Add(figures.Alioth, now)
		peak.Add(figures.Alioth, most)
		s.step(
			fmt.Sprintf(
				"the daemon, round %d of %d: first pass %.2f s, a change %s, %.0f MiB",
				round+1,
				s.rounds,
				seconds,
				pass,
				now,
			),
		)
	}
	return []*figures.Row{whole, first, adopting, change, seen, resident, peak}, nil
}

// passes returns how many passes the full node's daemon has made, and how many
// seconds they took together.
func (s *scaleRig) passes(ctx context.Context) (count, seconds float64, err error) {
	text, err := s.tool.In(s.full.NetNS())(ctx, "get", "--socket", s.full.Socket(), "http://alioth-cnid/metrics")
	if err != nil {
		return 0, 0, fmt.Errorf("read the daemon's metrics: %w", err)
	}
	steps, err := metrics.Histograms(text, "alioth_cnid_sync_seconds", "step")
	if err != nil {
		return 0, 0, fmt.Errorf("read the daemon's metrics: %w", err)
	}
	for _, h := range steps["total"] {
		count += float64(h.GetSampleCount())
		seconds += h.GetSampleSum()
	}
	return count, seconds, nil
}

// rest waits until the daemon stops making passes: the changes of the first pass make it look
// again.
func (s *scaleRig) rest(ctx context.Context) error {
	const quiet = 3 * time.Second
	for last := -1.0; ; {
		count, _, err := s.passes(ctx)
		if err != nil || count == last {
			return err
		}
		last = count
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the daemon to rest: %w", context.Cause(ctx))
		case <-time.After(quiet):
		}
	}
}

// change adds addresses one by one, and returns the mean time of a pass and the
// median time from the API's answer to a row in the map.
func (s *scaleRig) change(ctx context.Context) (pass, until time.Duration, err error) {
	reader, err := datapath.OpenReader(s.full.PinDir())
	if err != nil {
		return 0, 0, err
	}
	defer reader.Close()
	if err := s.rest(ctx); err != nil {
		return 0, 0, err
	}
	countBefore, before, err := s.passes(ctx)
	if err != nil {
		return 0, 0, err
	}
	var all []time.Duration
	for range scaleChanges {
		i, n := s.next%scaleVPCs, scaleAddresses/scaleVPCs+s.next/scaleVPCs
		s.next++
		if err := s.address(ctx, i, n, farNode(i+n), fmt.Sprintf("far-%d-%d", i, n), "uid"); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		for has := false; !has; {
			if has, err = reader.HasAddress(uint32(5000+i), scaleIP(n)); err != nil {
				return 0, 0, err
			}
			if ctx.Err() != nil {
				return 0, 0, fmt.Errorf("wait for address %s of %s: %w", scaleIP(n), scaleVPC(i), context.Cause(ctx))
			}
		}
		all = append(all, time.Since(began))
	}
	count, after, err := s.passes(ctx)
	if err != nil {
		return 0, 0, err
	}
	pass = time.Duration((after - before) / (count - countBefore) * float64(time.Second))
	return pass, report.QuantilesOf(all).P50, nil
}

// packetCosts measures packets between two pods of one VPC on either node.
func (s *scaleRig) packetCosts(ctx context.Context) error {
	var paths []packets.Path
	for name, at := range map[string]struct {
		node *nodes.Node
		vpc  int
	}{emptyNode: {s.empty, scaleVPCs}, fullNode: {s.full, scaleVPCs - 1}} {
		pod := func(role string) string {
			return underlay.NetNSPath(at.node.PodNetNS(fmt.Sprintf("%s-%d", role, at.vpc)))
		}
		if err := s.tool.Serve(pod("second")); err != nil {
			return err
		}
		paths = append(paths, packets.Path{Name: name, Run: s.tool.In(pod("first")), Address: scaleIP(1)})
	}
	slices.SortFunc(paths, func(a, b packets.Path) int { return strings.Compare(a.Name, b.Name) })
	if err := packets.WarmUp(ctx, paths); err != nil {
		return err
	}
	jobs := []packets.Job{
		packets.SmallDatagrams(paths, figures.Bar{Reference: emptyNode, AtLeast: 0.95}),
		packets.RoundTrip(paths, figures.Bar{Reference: emptyNode, AtMost: 1.05}),
	}
	rows, err := s.meter.Measure(ctx, "packets on a full node", jobs)
	if err != nil {
		return err
	}
	for _, row := range rows {
		row.Subject = fullNode
	}
	return figures.Print(
		s.out,
		"Between two pods of a node that has few or many VPCs",
		[]string{emptyNode, fullNode},
		rows,
	)
}
