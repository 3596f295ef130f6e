// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale measures how the control plane grows with the nodes: the lab's API server
// and etcd, the operator as a process, and the control halves of the nodes' daemons in this
// process, without kernels (docs/design/064).
//
// Some nodes are hollow: they run the daemon's sources, store, decisions, journal, planner,
// passes and roll call. The others hold the daemon's watches, decode what comes, count it
// and forget it. Each node has its own token, and its own connection as a daemon has: so
// the API server authenticates, authorizes, multiplexes and buffers for as many clients as
// in a cluster. On shared connections it would need less memory.
package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid"
	"github.com/alioth-net/alioth/test/bench/plane"
	"github.com/alioth-net/alioth/test/bench/scale/transport"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Config of a lab.
type Config struct {
	Size
	// Root is the root folder of the work tree.
	Root string
	// Server starts the API server.
	Server plane.Server
	// Step is called with the present step.
	Step func(string)
}

// Lab is a loaded control plane with nodes.
type Lab struct {
	Size
	*plane.Plane
	step     func(string)
	loader   *loader
	operator *plane.Replica
	// hollow are the first nodes, holders the others.
	hollow  []*hollow
	holders []*holder
	stop    context.CancelFunc
	loops   *errgroup.Group
	// ready is how long the operator took from its start to a filled store, with
	// everything loaded.
	ready time.Duration
	// pods is how many pods were made in the wide VPC, isolated how many more than
	// PodsPerNode in the first narrow one.
	pods, isolated int
	// members has the nodes that hold the addresses of a VPC, by its name and the node's number.
	// Every node holds the addresses of its other VPCs.
	members map[string]map[int]bool
	// idle is the last result of settled, nil since something was written.
	idle map[string]time.Duration
	// memory is the most that operators which have ended have had resident, in bytes.
	memory int64
}

// Start brings a lab up: it is loaded, the operator has settled, and all nodes have read their
// objects and answered a roll call. The caller stops the lab.
func Start(ctx context.Context, c Config) (_ *Lab, err error) {
	if size := c.Size; size.Bouncers < 1 || size.Hollow < 2*size.Bouncers || size.Nodes < 4 || size.Nodes <= size.Hollow || size.PodsPerNode < 2 ||
		size.PodsPerNode%2 != 0 ||
		size.Nodes%stride == 0 {
		return nil, fmt.Errorf("a lab of %+v is too small, or has an odd number of pods, or a multiple of %d nodes", size, stride)
	}
	l := &Lab{Size: c.Size, step: c.Step, loops: &errgroup.Group{}, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
		}
	}()
	if l.Plane, err = plane.New(ctx, c.Root, c.Server, c.Step, "scaledEndpoints.enabled=true"); err != nil {
		l.Plane = nil // it has stopped
		return nil, err
	}
	if l.loader, err = newLoader(l.Server.Config(), l); err != nil {
		return nil, err
	}
	for _, phase := range []func(context.Context) error{l.load, l.settle, l.startNodes} {
		if err := phase(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Stop ends everything and removes it.
func (l *Lab) Stop() (err error) {
	l.stop()
	_ = l.loops.Wait() // loops return no error
	for _, h := range l.hollow {
		err = errors.Join(err, h.journal.Close())
	}
	if l.operator != nil {
		l.operator.End(syscall.SIGTERM)
	}
	if l.Plane != nil {
		err = errors.Join(err, l.Plane.Stop())
	}
	return err
}

// load fills the API. The operator itself serves the wide VPC and the first narrow one. All other
// tenants and their pods are copies of the first narrow VPC's.
func (l *Lab) load(ctx context.Context) error {
	l.step(fmt.Sprintf("loading %s", l.Size))
	if err := errors.Join(l.defaultVPC(ctx), l.loader.nodes(ctx, l.Size)); err != nil {
		return err
	}
	if err := errors.Join(vpc(ctx, l, wide, "10.60.0.0/16", wideVNI), vpc(ctx, l, narrow(0), "10.50.0.0/20", vniOf(0))); err != nil {
		return err
	}
	if err := l.served(ctx); err != nil {
		return err
	}
	first, err := firstTenant(ctx, l)
	if err != nil {
		return err
	}
	all, err := models(ctx, l, narrow(0))
	if err != nil {
		return err
	}
	return l.loader.each(ctx, l.Nodes-1, func(ctx context.Context, _ client.Client, i int) error {
		vpc := i + 1
		entries := first.copy(vpc)
		for pod := range l.PodsPerNode {
			more, err := stored(all[podName(pod)].copy(narrow(vpc), nodeName(l.hostOf(vpc, pod))))
			if err != nil {
				return err
			}
			entries = append(entries, more...)
		}
		return writeStored(ctx, l.Server.Storage(), entries)
	})
}

// podNames returns the names of the first pods of a namespace.
func podNames(count int) (names []string) {
	for i := range count {
		names = append(names, podName(i))
	}
	return names
}

// defaultVPC creates the chart's default VPC.
func (l *Lab) defaultVPC(ctx context.Context) error {
	for _, object := range l.Objects {
		if kind := object.GetKind(); object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group || kind != "VPC" && kind != "Subnet" {
			continue
		}
		if err := l.Create(ctx, object.DeepCopy()); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// served has an operator serve pods in the wide VPC and in the first narrow one, and ends
// it.
func (l *Lab) served(ctx context.Context) error {
	r, err := l.start(ctx, "load")
	if err != nil {
		return err
	}
	defer r.End(syscall.SIGTERM)
	if err := errors.Join(l.networked(ctx, wide), l.networked(ctx, narrow(0))); err != nil {
		return err
	}
	if err := l.loader.each(ctx, l.Nodes+l.PodsPerNode, func(ctx context.Context, c client.Client, i int) error {
		if i < l.Nodes {
			return bind(ctx, c, wide, podName(i), nodeName(i))
		}
		pod := i - l.Nodes
		return bind(ctx, c, narrow(0), podName(pod), nodeName(l.hostOf(0, pod)))
	}); err != nil {
		return err
	}
	l.pods = l.Nodes
	return errors.Join(
		l.annotated(ctx, wide, podNames(l.Nodes)), l.annotated(ctx, narrow(0), podNames(l.PodsPerNode)),
		l.counted(ctx, wide, cnid.DefaultConfig().DefaultVPC, narrow(0)),
	)
}

// lease is longer than by default. With all nodes on the processors of the API server its
// requests may take seconds, and an operator without its lease reads everything again.
const lease = time.Minute

// start starts an operator.
func (l *Lab) start(ctx context.Context, name string) (*plane.Replica, error) {
	return l.Start(ctx, name, "--scaled-endpoints", "--role-nodes=labelled", "--lease-duration="+lease.String())
}

// networked waits until the Network of a namespace is Ready, so that pods can use it.
func (l *Lab) networked(ctx context.Context, namespace string) error {
	return scene.Until(ctx, "the Network of "+namespace+" to be ready", func(ctx context.Context) (bool, string, error) {
		network := &arktosv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: arktosv1.DefaultNetwork}}
		if err := l.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
			return false, "", err
		}
		return meta.IsStatusConditionTrue(network.Status.Conditions, v1alpha1.ReadyCondition), fmt.Sprint(network.Status.Conditions), nil
	})
}

// annotated waits until pods of a namespace have their addresses. It reads one pod at a time: lists
// would cost the API server more than the measured work.
func (l *Lab) annotated(ctx context.Context, namespace string, names []string) error {
	for _, name := range names {
		if err := scene.Until(ctx, fmt.Sprintf("pod %s/%s to have its address", namespace, name), func(ctx context.Context) (bool, string, error) {
			var pod corev1.Pod
			err := l.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
			return pod.Annotations[v1alpha1.AttachmentsAnnotation] != "", fmt.Sprint(pod.Status.Conditions), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// settle starts the operator, and waits until its counts are right and each node has its
// address.
func (l *Lab) settle(ctx context.Context) (err error) {
	began := time.Now()
	if l.operator, err = l.start(ctx, "operator"); err != nil {
		return err
	}
	if err := l.operator.Ready(ctx); err != nil {
		return err
	}
	l.ready = time.Since(began)
	l.step(fmt.Sprintf("the operator is ready after %.1f s", l.ready.Seconds()))
	all := []string{wide, cnid.DefaultConfig().DefaultVPC}
	for i := range l.Nodes {
		all = append(all, narrow(i))
	}
	return l.counted(ctx, all...)
}

// counted waits until the Usage of VPCs has the number of their Addresses.
func (l *Lab) counted(ctx context.Context, vpcs ...string) error {
	for _, vpc := range vpcs {
		want := int64(l.addressesIn(vpc))
		if err := scene.Until(ctx, fmt.Sprintf("VPC %s to have %d Addresses", vpc, want), func(ctx context.Context) (bool, string, error) {
			var usage v1alpha1.Usage
			err := l.Get(ctx, client.ObjectKey{Name: v1alpha1.UsageName(v1alpha1.UsageOfVPC, vpc)}, &usage)
			return err == nil && usage.Status.Used == want, fmt.Sprintf("it has %d (%v)", usage.Status.Used, err), nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// addressesIn returns the number of Addresses of a VPC now.
func (l *Lab) addressesIn(vpc string) int {
	switch vpc {
	case cnid.DefaultConfig().DefaultVPC:
		return addressesOfNode * l.Nodes
	case wide:
		return l.pods
	case narrow(0):
		return l.PodsPerNode + l.isolated
	}
	return l.PodsPerNode
}

// quiet is how long no event must come before everything counts as delivered: longer than the
// operator collects changes of counters.
const quiet = 4 * time.Second

// startNodes starts all nodes, and waits until they have read their objects, have attached their
// pods, and have answered the roll call.
func (l *Lab) startNodes(ctx context.Context) error {
	l.step(fmt.Sprintf("starting %d hollow nodes and %d holders of watches", l.Hollow, l.Nodes-l.Hollow))
	tokens, err := l.loader.tokens(ctx, l.Nodes)
	if err != nil {
		return err
	}
	lists, err := transport.NewFirstLists(l.Server.Config())
	if err != nil {
		return err
	}
	if err := lists.ReadLarge(); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	log := slog.New(slog.DiscardHandler)
	for i := range l.Nodes {
		via := access{server: l.Server.Config(), from: loopback(i), nodes: l.Nodes, token: tokens[i]}
		if i < l.Hollow {
			h, err := newHollow(ctx, nodeName(i), via, l.Folder, wideVNI, log)
			if err != nil {
				return err
			}
			l.hollow = append(l.hollow, h)
			continue
		}
		via.lists = lists.Wrap(nodeName(i))
		h, err := newHolder(nodeName(i), via, l.vpcsOf(i, cnid.DefaultConfig().DefaultVPC), log)
		if err != nil {
			return err
		}
		l.holders = append(l.holders, h)
	}
	began := time.Now()
	if err := l.bringUp(ctx, running); err != nil {
		return err
	}
	l.step(fmt.Sprintf("all nodes have read their part of the API after %.1f s", time.Since(began).Seconds()))
	return errors.Join(l.attached(ctx), l.answered(ctx, nil))
}

// startsAtOnce is how many nodes read their part of the API at the same time. Of more, the API
// server would refuse lists after they have waited for 15 s, and close connections.
const startsAtOnce = 16

// bringUp starts all nodes, which end with running, and returns once they have read their
// part of the API.
func (l *Lab) bringUp(ctx, running context.Context) error {
	err := eachOf(l.hollow, func(h *hollow) error { h.start(running, l.loops); return h.synced(ctx) })
	if err != nil {
		return err
	}
	return eachOf(l.holders, func(h *holder) error { h.start(running, l.loops); return h.synced(ctx) })
}

// eachOf calls do for all nodes, startsAtOnce of them at the same time.
func eachOf[N any](nodes []N, do func(N) error) error {
	var group errgroup.Group
	group.SetLimit(startsAtOnce)
	for _, n := range nodes {
		group.Go(func() error { return do(n) })
	}
	return group.Wait()
}

// nodes returns all nodes by number.
func (l *Lab) nodes() (all []*node) {
	for _, h := range l.hollow {
		all = append(all, h.node)
	}
	for _, h := range l.holders {
		all = append(all, h.node)
	}
	return all
}

// attached waits until hollow nodes have attached the pods that they were loaded with.
func (l *Lab) attached(ctx context.Context) error {
	want := l.PodsPerNode + 1
	return scene.Until(ctx, "hollow nodes to attach their pods", func(context.Context) (bool, string, error) {
		for _, h := range l.hollow {
			if have, err := h.attached(); err != nil || have < want {
				return false, fmt.Sprintf("node %s has %d of %d", h.name, have, want), err
			}
		}
		return true, "", nil
	})
}

// answered waits until all nodes have answered a question of the operator that is not in before. On
// a busy machine the operator may be elected again, and ask again.
func (l *Lab) answered(ctx context.Context, before map[string]bool) error {
	return scene.Until(ctx, "all nodes to answer a roll call", func(ctx context.Context) (bool, string, error) {
		replies, err := l.replies(ctx)
		count := 0
		for _, call := range replies {
			if call != v1alpha1.NoCall && !before[call] {
				count++
			}
		}
		return count == l.Nodes, fmt.Sprintf("%d of %d have answered; all replies: %v", count, l.Nodes, replies), err
	})
}

// replies returns the calls that nodes have answered, by the name of the reply.
func (l *Lab) replies(ctx context.Context) (map[string]string, error) {
	var calls v1alpha1.RollCallList
	if err := l.List(ctx, &calls); err != nil {
		return nil, fmt.Errorf("list roll calls: %w", err)
	}
	all := map[string]string{}
	for i := range calls.Items {
		if call := &calls.Items[i]; call.Name != v1alpha1.OperatorRollCall {
			all[call.Name] = call.Spec.Call
		}
	}
	return all, nil
}

// counts returns the counts of each node, by number.
func (l *Lab) counts() (all []transport.Counts) {
	for _, n := range l.nodes() {
		all = append(all, n.Counts())
	}
	return all
}

// settled waits until no node has received an event or a list for as long as quiet. l.idle is then
// the CPU time that processes have used per second meanwhile, by name: the work that the clock
// causes.
func (l *Lab) settled(ctx context.Context) error {
	if l.idle != nil {
		return nil
	}
	last, since := -1, time.Now()
	var before map[string]time.Duration
	err := scene.Until(ctx, "nodes to receive nothing", func(context.Context) (bool, string, error) {
		received := 0
		for _, counts := range l.counts() {
			received += counts.Total().Events + counts.Total().Listed
		}
		if received != last {
			var err error
			last, since = received, time.Now()
			before, err = l.CPUTimes(l.operator)
			return false, "", err
		}
		return time.Since(since) >= quiet, fmt.Sprintf("%d events and bytes of lists", received), nil
	})
	if err != nil {
		return err
	}
	idle, err := l.CPUSince(before, l.operator)
	if err != nil {
		return err
	}
	for name, used := range idle {
		idle[name] = time.Duration(float64(used) / time.Since(since).Seconds())
	}
	l.idle = idle
	return nil
}
