// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
	"github.com/alioth-net/alioth/store/kinds/ipamapi"
	"github.com/alioth-net/alioth/store/kinds/outside"
)

func (u *uninstaller) component(component string) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(u.namespace),
		client.MatchingLabels{nameLabel: chartName, componentLabel: component},
	}
}

func (u *uninstaller) stopOperators(ctx context.Context) error {
	if err := u.scaleOperators(ctx, 0); err != nil {
		return err
	}
	return u.untilGone(ctx, componentOperator)
}

// scaleOperators sets the number of pods of every operator Deployment.
func (u *uninstaller) scaleOperators(ctx context.Context, replicas int32) error {
	var list appsv1.DeploymentList
	if err := u.client.List(ctx, &list, u.component(componentOperator)...); err != nil {
		return fmt.Errorf("list operators: %w", err)
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		before := deployment.DeepCopy()
		deployment.Spec.Replicas = &replicas
		if err := u.client.Patch(ctx, deployment, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("scale %s: %w", deployment.Name, err)
		}
	}
	return nil
}

// untilGone waits until no pod of a component is left.
func (u *uninstaller) untilGone(ctx context.Context, component string) error {
	return until(ctx, func(ctx context.Context) ([]string, error) {
		var pods corev1.PodList
		if err := u.client.List(ctx, &pods, u.component(component)...); err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		var left []string
		for _, pod := range pods.Items {
			left = append(left, "pod "+pod.Name+" to end")
		}
		return left, nil
	})
}

func (u *uninstaller) stopDaemons(ctx context.Context) error {
	if err := u.retireDaemons(ctx, true); err != nil {
		return err
	}
	return u.untilGone(ctx, componentDaemon)
}

// retireDaemons removes the daemons from all nodes or brings them back. The DaemonSet stays: it is
// the template of the clean-up pods, even if Run is repeated.
func (u *uninstaller) retireDaemons(ctx context.Context, retire bool) error {
	set, err := u.daemons(ctx)
	if set == nil {
		return err
	}
	before := set.DeepCopy()
	selector := set.Spec.Template.Spec.NodeSelector
	if selector == nil {
		selector = map[string]string{}
	}
	if retire {
		selector[retiredSelector] = "true"
	} else {
		delete(selector, retiredSelector)
	}
	set.Spec.Template.Spec.NodeSelector = selector
	if err := u.client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change the daemons' nodes: %w", err)
	}
	return nil
}

// daemons returns the DaemonSet, or nil when it is gone.
func (u *uninstaller) daemons(ctx context.Context) (*appsv1.DaemonSet, error) {
	var list appsv1.DaemonSetList
	if err := u.client.List(ctx, &list, u.component(componentDaemon)...); err != nil {
		return nil, fmt.Errorf("read the daemons: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// cleanNodes runs the clean-up on every node that daemons were meant for.
func (u *uninstaller) cleanNodes(ctx context.Context) error {
	set, err := u.daemons(ctx)
	if set == nil {
		return err
	}
	// They may be left from an attempt that was killed.
	if err := u.deleteCleanupPods(ctx); err != nil {
		return err
	}
	if err := u.untilGone(ctx, componentCleanup); err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := u.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range servedNodes(nodes.Items, set) {
		if err := u.client.Create(ctx, cleanupPod(set, node)); err != nil {
			return fmt.Errorf("start the clean-up of node %s: %w", node, err)
		}
	}
	if err := until(ctx, u.cleaning); err != nil {
		return err
	}
	return u.deleteCleanupPods(ctx)
}

// cleaning returns the nodes that are not clean yet. It returns an error with the
// causes once none of them can become clean.
func (u *uninstaller) cleaning(ctx context.Context) ([]string, error) {
	var pods corev1.PodList
	if err := u.client.List(ctx, &pods, u.component(componentCleanup)...); err != nil {
		return nil, fmt.Errorf("list clean-ups: %w", err)
	}
	pending, failures := outcome(pods.Items)
	if len(pending) == 0 && len(failures) > 0 {
		return nil, errors.New(quote.Message(strings.Join(failures, "; ")))
	}
	return pending, nil
}

func (u *uninstaller) deleteCleanupPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := u.client.List(ctx, &pods, u.component(componentCleanup)...); err != nil {
		return fmt.Errorf("list clean-ups: %w", err)
	}
	for i := range pods.Items {
		if err := u.client.Delete(ctx, &pods.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete a clean-up: %w", err)
		}
	}
	return nil
}

// releaseAddresses deletes the remaining claims: claims of nodes, Services, and deleted pods.
func (u *uninstaller) releaseAddresses(ctx context.Context) error {
	var inside v1alpha1.AddressList
	var outside v1alpha1.ExternalAddressList
	for _, list := range []client.ObjectList{&inside, &outside} {
		if err := u.client.List(ctx, list); ignoreMissingKind(err) != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	var all []client.Object
	for i := range inside.Items {
		all = append(all, &inside.Items[i])
	}
	for i := range outside.Items {
		all = append(all, &outside.Items[i])
	}
	for _, object := range all {
		uid := object.GetUID()
		err := u.client.Delete(ctx, object, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("release %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// forgetNodes deletes the daemons' RollCalls and conditions. After a new
// installation, a term of the operator would otherwise wait for replies of nodes
// that have no daemon yet.
func (u *uninstaller) forgetNodes(ctx context.Context) error {
	if err := u.client.DeleteAllOf(ctx, new(v1alpha1.RollCall)); ignoreMissingKind(err) != nil {
		return fmt.Errorf("delete roll calls: %w", err)
	}
	var nodes corev1.NodeList
	if err := u.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		own := ownConditions(node)
		if len(own) == 0 {
			continue
		}
		patch, err := withoutConditions(own)
		if err != nil {
			return fmt.Errorf("remove conditions of node %s: %w", node.Name, err)
		}
		err = u.client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove conditions of node %s: %w", node.Name, err)
		}
	}
	return nil
}

// endIdentities deletes the numbers of label sets with their finalizers. A number without Address
// does not rest first, because the daemons that knew it are gone.
func (u *uninstaller) endIdentities(ctx context.Context) error {
	var list v1alpha1.PolicyIdentityList
	if err := u.client.List(ctx, &list); ignoreMissingKind(err) != nil {
		return fmt.Errorf("list PolicyIdentities: %w", err)
	}
	for i := range list.Items {
		identity := &list.Items[i]
		uid := identity.GetUID()
		if err := u.client.Delete(ctx, identity, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete PolicyIdentity %s: %w", identity.Name, err)
		}
		// The patch has no resource version, which the deletion has changed.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := u.client.Patch(ctx, identity, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("release PolicyIdentity %s: %w", identity.Name, err)
		}
	}
	return nil
}

// dropFinalizers removes the operator's finalizers. Otherwise objects could never be deleted once
// the operator is gone.
func (u *uninstaller) dropFinalizers(ctx context.Context) error {
	lists := []client.ObjectList{
		new(arktosv1.NetworkList),
		new(v1alpha1.SubnetList),
		new(v1alpha1.VPCList),
		new(v1alpha1.AttachmentClaimList),
	}
	for _, kind := range outside.Networks {
		lists = append(lists, kind.NewList())
	}
	for _, group := range ipamapi.Groups {
		lists = append(lists, ipamapi.PodNetworkInstances[group].NewList())
	}
	for _, list := range lists {
		if err := u.client.List(ctx, list); ignoreMissingKind(err) != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return fmt.Errorf("read %T: %w", list, err)
		}
		for _, object := range objects {
			held, ok := object.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object of the API", object)
			}
			if _, err := write.RemoveFinalizer(ctx, u.client, held); err != nil {
				return err
			}
		}
	}
	return nil
}

// ignoreMissingKind ignores the error that Alioth's kinds are gone already.
func ignoreMissingKind(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
