// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/inspect/verify"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/core"
)

// objects fills the store with the input of a node's plan.
func (c *Collector) objects(ctx context.Context, s *store.Store) (verify.Input, error) {
	read := map[*descriptor.Kind]kube.List{}
	for _, kind := range podsLast(kinds.All()) {
		read[kind] = kind.NewList()
		err := c.api.List(ctx, read[kind], followed(kind)...)
		if kind.Optional && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)) {
			continue // the cluster does not have the area
		}
		if err != nil {
			return verify.Input{}, fmt.Errorf("list objects: %w", err)
		}
	}
	var in verify.Input
	if pods, ok := read[core.Pod.Kind].(*corev1.PodList); ok {
		in.Pods = statuses(pods.Items)
	}
	err := s.Update(func(tx store.Tx) error {
		for _, kind := range kinds.All() {
			refused, err := put(tx, kind, read[kind])
			if err != nil {
				return err
			}
			in.Refused = append(in.Refused, refused...)
		}
		return nil
	})
	return in, err
}

// followed selects the objects of a kind that nodes follow, by labels. Objects
// without the labels would lead to a plan that no node has. The function does not select by
// fields: these leave out objects of other nodes only.
func followed(kind *descriptor.Kind) []client.ListOption {
	const anyNode = ""
	if kind.OnNode == nil { // all, or objects that belong to a VPC of some node
		return nil
	}
	if selector := kind.OnNode(anyNode).Labels; selector != nil {
		return []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
	}
	return nil
}

// podsLast reads pods last, so that a pod that is created meanwhile has no addresses yet.
// In the other order its addresses would look like a leak.
func podsLast(list []*descriptor.Kind) []*descriptor.Kind {
	list = slices.DeleteFunc(list, func(kind *descriptor.Kind) bool { return kind == core.Pod.Kind })
	return append(list, core.Pod.Kind)
}

// put writes the rows of the objects. It returns the objects whose rows conflict with others;
// such a conflict is a difference too.
func put(tx store.Tx, kind *descriptor.Kind, list kube.List) ([]verify.Refused, error) {
	var refused []verify.Refused
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(kube.Object)
		if !ok {
			return fmt.Errorf("list objects: unexpected %T", item)
		}
		row, err := kind.Row(object)
		if err == nil && row != nil {
			err = kind.Put(tx, row)
		}
		if err != nil {
			name := fmt.Sprintf("%s %s", kind.Name, client.ObjectKeyFromObject(object))
			refused = append(refused, verify.Refused{Object: name, Why: err.Error()})
		}
		return nil
	})
	return refused, err
}

func statuses(pods []corev1.Pod) map[string]verify.Pod {
	all := map[string]verify.Pod{}
	for i := range pods {
		status := verify.Pod{Running: pods[i].Status.Phase == corev1.PodRunning}
		for _, podIP := range pods[i].Status.PodIPs {
			if ip, err := netip.ParseAddr(podIP.IP); err == nil {
				status.IPs = append(status.IPs, ip)
			}
		}
		all[string(pods[i].UID)] = status
	}
	return all
}
