// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/bench/plane"
)

// bareClient writes the objects that the operator writes for a claim, and does nothing else: no
// watch, no choice, no record. Its rate is the limit of API server and etcd on this machine.
const bareClient = "bare client"

// bareWriters is how many pods it works on at once, as many as the operator.
const bareWriters = 8

// claimBare has the bare client write, for pods of a namespace of its own, the objects that the
// operator wrote for pods of another namespace.
func (b *Bench) claimBare(ctx context.Context, c *control, served, name string) (claims, error) {
	if err := b.prepareClaims(ctx, c, name); err != nil {
		return claims{}, err
	}
	all, err := c.rewrites(ctx, served, name)
	if err != nil {
		return claims{}, err
	}
	writer, err := c.AsOperator()
	if err != nil {
		return claims{}, err
	}
	made, err := c.writeBare(ctx, writer, all)
	if err != nil {
		return claims{}, err
	}
	// Later measurements shall not depend on these.
	if err := c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(name), client.GracePeriodSeconds(0)); err != nil {
		return claims{}, fmt.Errorf("delete pods: %w", err)
	}
	_, err = inParallel(ctx, all, func(ctx context.Context, one rewrite) error {
		return writer.Delete(ctx, one.address, client.Preconditions{UID: &one.address.UID})
	})
	return made, err
}

// inParallel calls do for each, and returns how long all took.
func inParallel(ctx context.Context, all []rewrite, do func(context.Context, rewrite) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(bareWriters)
	for _, one := range all {
		group.Go(func() error { return do(groupCtx, one) })
	}
	err := group.Wait()
	return time.Since(began), err
}

// rewrite is one claim to be written: the Address, and the patch of its pod.
type rewrite struct {
	address *v1alpha1.Address
	pod     *corev1.Pod
	patch   []byte
}

// rewrites turns the objects that the operator wrote for the pods of one namespace into the same
// objects for pods of another, which bear the same names.
func (c *control) rewrites(ctx context.Context, from, to string) ([]rewrite, error) {
	var addresses v1alpha1.AddressList
	var served, waiting corev1.PodList
	if err := errors.Join(c.List(ctx, &addresses, client.MatchingFields{"spec.vpc": from}),
		c.List(ctx, &served, client.InNamespace(from)), c.List(ctx, &waiting, client.InNamespace(to))); err != nil {
		return nil, fmt.Errorf("read what the operator wrote: %w", err)
	}
	held := map[string]*v1alpha1.Address{}
	for i := range addresses.Items {
		held[addresses.Items[i].Spec.Holder.Name] = &addresses.Items[i]
	}
	reported := map[string]*corev1.Pod{}
	for i := range served.Items {
		reported[served.Items[i].Name] = &served.Items[i]
	}
	all := make([]rewrite, 0, len(waiting.Items))
	for i := range waiting.Items {
		pod := &waiting.Items[i]
		address, model := held[pod.Name], reported[pod.Name]
		if address == nil || model == nil {
			return nil, fmt.Errorf("pod %s of %s has no address", pod.Name, from)
		}
		patch, err := plane.PatchLike(model, pod)
		if err != nil {
			return nil, err
		}
		all = append(all, rewrite{address: plane.AddressLike(address, pod), pod: pod, patch: patch})
	}
	return all, nil
}

// writeBare does the writes, and returns how fast they were.
func (c *control) writeBare(ctx context.Context, writer client.Client, all []rewrite) (made claims, err error) {
	before, err := c.CPUTimes()
	if err != nil {
		return made, err
	}
	took, err := inParallel(ctx, all, func(ctx context.Context, one rewrite) error { return one.write(ctx, writer) })
	if err != nil {
		return made, err
	}
	made.perSecond = float64(len(all)) / took.Seconds()
	made.cpu, err = c.CPUSince(before)
	return made, err
}

func (w rewrite) write(ctx context.Context, writer client.Client) error {
	if err := writer.Create(ctx, w.address); err != nil {
		return fmt.Errorf("create %s: %w", w.address.Name, err)
	}
	reference := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: w.pod.Name}}
	if err := writer.Status().Patch(ctx, reference, client.RawPatch(types.StrategicMergePatchType, w.patch)); err != nil {
		return fmt.Errorf("patch pod %s: %w", w.pod.Name, err)
	}
	return nil
}
