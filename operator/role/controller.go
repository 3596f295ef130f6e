// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// Reconciler carries out the plans of VPCs. It belongs to one term.
type Reconciler struct {
	// Client writes; its reads come from the informers.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Store  *store.Store
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// AnyNode: a node needs no label to be a member.
	AnyNode bool
	// Off is World.Off.
	Off bool

	mu sync.Mutex
	// waits has the waits of the last plan, by name of the VPC.
	waits map[string]map[string]Wait
}

// workers is the number of VPCs that are processed at once. A node that changes may change the
// roles of all VPCs, and each replaced member takes a dozen writes.
const workers = 8

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("role", workers, r, source(f))
}

// Reconcile implements reconcile.Reconciler. The request names a VPC.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var w World
	r.Store.View(func(tx store.ReadTx) { w = r.read(tx, request.Name) })
	if err := r.confirm(ctx, request.Name, w); err != nil {
		return ctrl.Result{}, err
	}
	p := Decide(w, r.waitsOf(request.Name), r.Clock.Now())
	r.keep(request.Name, p.Waits)
	if err := r.writeVPC(ctx, w.VPC, p); err != nil {
		return ctrl.Result{}, err
	}
	err := inTurn(p.Steps, func(step Step) error { return r.write(ctx, step) })
	return ctrl.Result{RequeueAfter: p.Next}, errors.Join(err, r.writeSubnets(ctx, w, p))
}

// inTurn writes steps in their order. A failed step ends the steps of its role: no member leaves
// where another one could not be made to serve. Other roles go on.
func inTurn(steps []Step, write func(Step) error) error {
	failed := map[string]error{}
	for _, step := range steps {
		key := step.Member.Key()
		if failed[key] != nil {
			continue
		}
		if err := write(step); err != nil {
			failed[key] = err
		}
	}
	return errors.Join(slices.Collect(maps.Values(failed))...)
}

func (r *Reconciler) waitsOf(vpc string) map[string]Wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.waits[vpc])
}

func (r *Reconciler) keep(vpc string, waits map[string]Wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits == nil {
		r.waits = map[string]map[string]Wait{}
	}
	if len(waits) == 0 {
		delete(r.waits, vpc)
		return
	}
	r.waits[vpc] = waits
}

// confirm returns an error while the store has members of a VPC that exists, and lacks the
// VPC: the informers of the two kinds are not in step, and the members would be deleted.
func (r *Reconciler) confirm(ctx context.Context, name string, w World) error {
	for _, m := range w.Members {
		if m.VPCUID == w.VPC.UID {
			continue
		}
		living := &v1alpha1.VPC{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, living); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get VPC %s: %w", name, err)
		}
		if string(living.UID) != w.VPC.UID {
			return fmt.Errorf("VPC %s has UID %q in the API and %q here: trying again", name, living.UID, w.VPC.UID)
		}
		return nil
	}
	return nil
}

// write does one step. Each write names the object as it was read, so a decision from an
// outdated copy changes nothing.
func (r *Reconciler) write(ctx context.Context, step Step) error {
	m := step.Member
	var err error
	switch step.Verb {
	case Create:
		err = r.Client.Create(ctx, object(m))
		if apierrors.IsAlreadyExists(err) {
			return nil // its event is still to come
		}
	case Change:
		changed := object(m)
		changed.UID, changed.ResourceVersion = types.UID(m.UID), m.ResourceVersion
		err = r.Client.Update(ctx, changed)
	case Delete:
		uid := types.UID(m.UID)
		err = client.IgnoreNotFound(
			r.Client.Delete(ctx, object(m), client.Preconditions{UID: &uid, ResourceVersion: &m.ResourceVersion}),
		)
	}
	if err != nil {
		return fmt.Errorf("RoleMember %s of VPC %s on node %s: %w", m.Name, m.VPC, m.Node, err)
	}
	did := map[Verb]string{Create: "created", Change: "changed", Delete: "deleted"}[step.Verb]
	ctrl.LoggerFrom(ctx).
		Info("RoleMember "+did, "vpc", m.VPC, "subnet", m.Subnet, "node", m.Node, "stage", m.Stage, "revision", m.Revision)
	return nil
}

// object returns a member as an object without its status.
func object(m roles.Member) *v1alpha1.RoleMember {
	spec := v1alpha1.RoleMemberSpec{
		Role: v1alpha1.RoleDivider, VPC: m.VPC, VPCUID: m.VPCUID, Subnet: m.Subnet, SubnetUID: m.SubnetUID,
		Node: m.Node, NodeUID: m.NodeUID, Stage: v1alpha1.Stage(m.Stage), Revision: m.Revision,
	}
	if m.Subnet != "" {
		spec.Role = v1alpha1.RoleBouncer
	}
	return &v1alpha1.RoleMember{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: spec}
}
