// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/write"
)

// writeVPC writes the state of the dividers, and takes the revisions of the plan. No step
// may follow if it fails.
func (r *Reconciler) writeVPC(ctx context.Context, of VPC, p Plan) error {
	if of.UID == "" {
		return nil
	}
	vpc := &v1alpha1.VPC{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: of.Name}, vpc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read VPC %s: %w", of.Name, err)
	}
	if string(vpc.UID) != of.UID {
		return outdated("vpcs", of.Name)
	}
	before := vpc.DeepCopy()
	vpc.Status.Dividers = statusOf(p.Dividers)
	vpc.Status.RolesRevision = max(vpc.Status.RolesRevision, p.Revision)
	if len(p.Steps) > 0 && before.Status.RolesRevision != of.Revision {
		return outdated("vpcs", of.Name) // its revisions may be in use
	}
	changed := setCondition(&vpc.Status.Conditions, vpc.Generation, p.Dividers)
	if err := write.Status(ctx, r.Client, before, vpc); err != nil {
		return err
	}
	r.tell(vpc, p.Dividers, changed)
	return nil
}

// writeSubnets writes the states of the bouncers.
func (r *Reconciler) writeSubnets(ctx context.Context, w World, p Plan) error {
	for _, of := range w.Subnets {
		subnet := &v1alpha1.Subnet{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: of.Name}, subnet); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Subnet %s: %w", of.Name, err)
		}
		if string(subnet.UID) != of.UID {
			continue // its event is still to come
		}
		before, summary := subnet.DeepCopy(), p.Bouncers[of.Name]
		subnet.Status.Bouncers = statusOf(summary)
		changed := setCondition(&subnet.Status.Conditions, subnet.Generation, summary)
		if err := write.Status(ctx, r.Client, before, subnet); err != nil {
			return err
		}
		r.tell(subnet, summary, changed)
	}
	return nil
}

func outdated(resource, name string) error {
	return apierrors.NewConflict(
		schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: resource},
		name,
		fmt.Errorf("the store and the informer differ"),
	)
}

func statusOf(s Summary) *v1alpha1.RolesStatus {
	if s.Wanted == 0 {
		return nil
	}
	return &v1alpha1.RolesStatus{Wanted: int32(s.Wanted), Serving: int32(len(s.Serving)), Nodes: s.Serving}
}

// setCondition sets RolesReady, or removes it where no role is wanted, and reports whether
// its reason has changed.
func setCondition(conditions *[]metav1.Condition, generation int64, s Summary) (changed bool) {
	before := meta.FindStatusCondition(*conditions, v1alpha1.RolesReadyCondition)
	if s.Wanted == 0 {
		meta.RemoveStatusCondition(conditions, v1alpha1.RolesReadyCondition)
		return false
	}
	changed = before == nil || before.Reason != s.Reason
	write.SetCondition(conditions, generation, v1alpha1.RolesReadyCondition, s.Ready, s.Reason, s.Message)
	return changed
}

// tell writes an event about a role with another reason than before. It leaves out joining members:
// they are normal, and over within moments.
func (r *Reconciler) tell(object client.Object, s Summary, changed bool) {
	if !changed || s.Reason == v1alpha1.RolesJoiningReason {
		return
	}
	level := corev1.EventTypeWarning
	if s.Ready {
		level = corev1.EventTypeNormal
	}
	r.Events.Eventf(object, nil, level, s.Reason, "Place", "%s", s.Message)
}
