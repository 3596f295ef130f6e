// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale measures how the control plane grows with the nodes: the lab's API server
// and etcd, the operator as a process, and the control halves of the nodes' daemons in this
// process, without kernels (docs/design/140).
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
	"github.com/alioth-net/alioth/test/e2e/scene"
)

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
}

// Start brings a lab up: it is loaded, the operator has settled, and all nodes have read
// what they follow and answered a roll call. It calls step with what happens now. root is
// the root folder of the work tree. The caller stops the lab.
func Start(ctx context.Context, root string, size Size, step func(string)) (_ *Lab, err error) {
	if size.Nodes < 4 || size.Hollow < 1 || size.Hollow > size.Nodes || size.PodsPerNode < 2 || size.PodsPerNode%2 != 0 {
		return nil, fmt.Errorf("a lab of %+v is too small", size)
	}
	l := &Lab{Size: size, step: step, loops: &errgroup.Group{}, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
		}
	}()
	if l.Plane, err = plane.New(ctx, root, step); err != nil {
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

// load fills the API. The operator itself serves the wide VPC and the first narrow one,
// whose pods are the models of all others.
func (l *Lab) load(ctx context.Context) error {
	l.step(fmt.Sprintf("loading %s", l.Size))
	if err := errors.Join(l.defaultVPC(ctx), l.loader.nodes(ctx, l.Nodes), vpc(ctx, l, wide, "10.60.0.0/16", wideVNI)); err != nil {
		return err
	}
	if err := l.loader.each(ctx, l.Nodes, func(ctx context.Context, c client.Client, i int) error {
		return vpc(ctx, c, narrow(i), "10.50.0.0/20", vniOf(i))
	}); err != nil {
		return err
	}
	if err := l.served(ctx); err != nil {
		return err
	}
	all, err := models(ctx, l, narrow(0))
	if err != nil {
		return err
	}
	operator, err := l.AsOperator()
	if err != nil {
		return err
	}
	return l.loader.each(ctx, (l.Nodes-1)*l.PodsPerNode, func(ctx context.Context, c client.Client, i int) error {
		vpc, pod := 1+i/l.PodsPerNode, i%l.PodsPerNode
		return all[podName(pod)].copy(ctx, c, operator, narrow(vpc), nodeName(l.hostOf(vpc, pod)))
	})
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
	r, err := l.Start(ctx, "load")
	if err != nil {
		return err
	}
	defer r.End(syscall.SIGTERM)
	if err := errors.Join(l.networked(ctx, wide), l.networked(ctx, narrow(0))); err != nil {
		return err
	}
	if err := l.loader.each(ctx, l.Nodes+l.PodsPerNode, func(ctx context.Context, c client.Client, i int) error {
		if i < l.Nodes {
			_, err := bind(ctx, c, wide, podName(i), nodeName(i))
			return err
		}
		pod := i - l.Nodes
		_, err := bind(ctx, c, narrow(0), podName(pod), nodeName(l.hostOf(0, pod)))
		return err
	}); err != nil {
		return err
	}
	l.pods = l.Nodes
	return errors.Join(l.annotated(ctx, wide, l.Nodes), l.annotated(ctx, narrow(0), l.PodsPerNode))
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

// annotated waits until so many pods of a namespace have their addresses.
func (l *Lab) annotated(ctx context.Context, namespace string, want int) error {
	return scene.Until(ctx, fmt.Sprintf("%d pods of %s to have addresses", want, namespace), func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		if err := l.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return false, "", err
		}
		have := 0
		for i := range pods.Items {
			if pods.Items[i].Annotations[v1alpha1.AttachmentsAnnotation] != "" {
				have++
			}
		}
		return have == want, fmt.Sprintf("%d of %d have", have, len(pods.Items)), nil
	})
}

// settle starts the operator, and waits until its counts are right and each node has its
// address.
func (l *Lab) settle(ctx context.Context) (err error) {
	began := time.Now()
	if l.operator, err = l.Start(ctx, "operator"); err != nil {
		return err
	}
	if err := l.operator.Ready(ctx); err != nil {
		return err
	}
	l.ready = time.Since(began)
	l.step(fmt.Sprintf("the operator is ready after %.1f s", l.ready.Seconds()))
	return l.counted(ctx)
}

// counted waits until the Usage of each VPC has the number of its Addresses.
func (l *Lab) counted(ctx context.Context) error {
	want := map[string]int{wide: l.pods, narrow(0): l.PodsPerNode + l.isolated, cnid.DefaultConfig().DefaultVPC: addressesOfNode * l.Nodes}
	return scene.Until(ctx, "all VPCs to have their counts", func(ctx context.Context) (bool, string, error) {
		var usages v1alpha1.UsageList
		if err := l.List(ctx, &usages); err != nil {
			return false, "", err
		}
		vpcs := 0
		for i := range usages.Items {
			usage := &usages.Items[i]
			if usage.Spec.Kind != v1alpha1.UsageOfVPC {
				continue
			}
			vpcs++
			count, ok := want[usage.Spec.Name]
			if !ok {
				count = l.PodsPerNode
			}
			if usage.Status.Used != int64(count) {
				return false, fmt.Sprintf("VPC %s has %d, want %d", usage.Spec.Name, usage.Status.Used, count), nil
			}
		}
		return vpcs == l.Nodes+2, fmt.Sprintf("%d VPCs have counts", vpcs), nil
	})
}

// quiet is for how long nothing must come before all that was caused counts as delivered:
// longer than the operator collects changes of counters for.
const quiet = 4 * time.Second

// startNodes starts all nodes, and waits until they have read what they follow, have
// attached their pods, and have answered the roll call.
func (l *Lab) startNodes(ctx context.Context) error {
	l.step(fmt.Sprintf("starting %d hollow nodes and %d holders of watches", l.Hollow, l.Nodes-l.Hollow))
	tokens, err := l.loader.tokens(ctx, l.Nodes)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	log := slog.New(slog.DiscardHandler)
	for i := range l.Nodes {
		via := access{server: l.Server.Config(), token: tokens[i]}
		if i < l.Hollow {
			h, err := newHollow(ctx, nodeName(i), via, l.Folder, wideVNI, log)
			if err != nil {
				return err
			}
			l.hollow = append(l.hollow, h)
			continue
		}
		h, err := newHolder(nodeName(i), via, l.vpcsOf(i, cnid.DefaultConfig().DefaultVPC), log)
		if err != nil {
			return err
		}
		l.holders = append(l.holders, h)
	}
	began := time.Now()
	for _, h := range l.hollow {
		h.start(running, l.loops)
	}
	for _, h := range l.holders {
		h.start(running, l.loops)
	}
	for _, n := range l.nodes() {
		if err := n.synced(ctx); err != nil {
			return fmt.Errorf("wait until node %s has read its part of the API: %w", n.name, err)
		}
	}
	l.step(fmt.Sprintf("all nodes have read their part of the API after %.1f s", time.Since(began).Seconds()))
	return errors.Join(l.attached(ctx), l.answered(ctx, nil))
}

// nodes are all nodes by number.
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

// answered waits until all nodes have answered a question of the operator that is none of
// these calls. On a busy machine the operator may be elected again, and ask again.
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

// replies are the calls that nodes have answered, by the name of the reply.
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

// counts are what each node has received, by number.
func (l *Lab) counts() (all []Counts) {
	for _, n := range l.nodes() {
		all = append(all, n.Counts())
	}
	return all
}

// settled waits until no node has received an event for as long as quiet.
func (l *Lab) settled(ctx context.Context) error {
	last, since := -1, time.Now()
	return scene.Until(ctx, "nodes to receive nothing", func(context.Context) (bool, string, error) {
		events := 0
		for _, counts := range l.counts() {
			events += counts.Total().Events
		}
		if events != last {
			last, since = events, time.Now()
		}
		return time.Since(since) >= quiet, fmt.Sprintf("%d events", events), nil
	})
}
