// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// prey has the objects of a tenant's VPC with bouncers that others want: a member with its status,
// the list of a node, and the operator's verdict about a Service.
type prey struct {
	*env
	client, backend *corev1.Pod
	service         *corev1.Service
	member          *v1alpha1.RoleMember
	listed          *v1alpha1.NodeRoles
	verdict         *v1alpha1.ScaledEndpoint
}

func (e *env) prey(t *testing.T) *prey {
	t.Helper()
	tenant := e.Tenant(t, tenant("prey", 2, 0))
	p := &prey{env: e, listed: &v1alpha1.NodeRoles{}, service: serviceOf(tenant, "web", map[string]string{"app": "web"})}
	p.client, p.backend = tenant.Pod("client", scene.OnNode(e.plain[0])), tenant.Pod("backend", scene.OnNode(e.plain[1]), scene.WithLabel("app", "web"))
	e.Make(t, p.service)
	e.Run(t, p.client, p.backend)
	e.served(t, tenant, e.eligible, nil)
	e.waits(t, "the objects of roles and Services", func(ctx context.Context) (bool, string, error) {
		err := p.find(ctx, tenant)
		found := p.member != nil && p.verdict != nil && hasBackend(p.verdict) && len(p.listed.Spec.VPCs) > 0
		return found, "no member, no verdict with a backend, or nothing listed", err
	})
	return p
}

// hasBackend reports whether the operator has judged the backend: a verdict may be written
// before the pod is ready, and changes then.
func hasBackend(verdict *v1alpha1.ScaledEndpoint) bool {
	return slices.ContainsFunc(verdict.Spec.Groups, func(g v1alpha1.ScaledGroup) bool { return len(g.Backends) > 0 })
}

// find reads the member on the last node, a verdict about a Service, and the list of a node.
func (p *prey) find(ctx context.Context, tenant *scene.Tenant) error {
	var members v1alpha1.RoleMemberList
	var verdicts v1alpha1.ScaledEndpointList
	p.listed = &v1alpha1.NodeRoles{}
	ofVPC := client.MatchingFields{"spec.vpc": tenant.VPC.Name}
	err := errors.Join(
		client.IgnoreNotFound(p.Client.Get(ctx, client.ObjectKey{Name: p.plain[1]}, p.listed)),
		p.Client.List(ctx, &members, ofVPC),
		p.Client.List(ctx, &verdicts, ofVPC),
	)
	for _, m := range members.Items {
		if m.Spec.Node == p.eligible[1] && m.Spec.Subnet == tenant.Subnets[0].Name {
			p.member = &m
		}
	}
	if len(verdicts.Items) > 0 {
		p.verdict = &verdicts.Items[0]
	}
	return err
}

// objects are new copies of the objects that others want.
func (p *prey) objects() []client.Object {
	return []client.Object{p.member.DeepCopy(), p.listed.DeepCopy(), p.verdict.DeepCopy()}
}

// forged are objects that would be useful to somebody, were they believed.
func (p *prey) forged() []client.Object {
	member := &v1alpha1.RoleMember{Spec: p.member.Spec}
	member.Spec.Node, member.Spec.Stage = p.plain[0], v1alpha1.StageServing
	member.Name = strings.Replace(p.member.Name, ".", ".0", 1)
	verdict := &v1alpha1.ScaledEndpoint{Spec: p.verdict.DeepCopy().Spec}
	verdict.Spec.Part = 7
	verdict.Name = v1alpha1.ScaledEndpointName(&verdict.Spec)
	listed := &v1alpha1.NodeRoles{Spec: p.listed.DeepCopy().Spec}
	listed.Name = "forged"
	return []client.Object{member, verdict, listed}
}

// changes are attempts to change each of the objects.
func changes(object client.Object) map[string]func(context.Context, client.Client) error {
	patch := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }
	return map[string]func(context.Context, client.Client) error{
		"change the spec": func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, object.DeepCopyObject().(client.Object), patch(`{"spec":{"stage":"Leaving","vpcs":[],"part":3}}`))
		},
		"change the status": func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, object.DeepCopyObject().(client.Object), patch(`{"status":{"complete":true}}`))
		},
		"label": func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, object.DeepCopyObject().(client.Object), patch(`{"metadata":{"labels":{"forged":"yes"}}}`))
		},
		"delete": func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, object.DeepCopyObject().(client.Object))
		},
	}
}

// refused requires that somebody gets no write through.
func (p *prey) refused(t *testing.T, who string, c client.Client) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	for _, object := range p.objects() {
		if err := p.replace(ctx, c, object); !apierrors.IsForbidden(err) {
			t.Errorf("%s tries to replace %T %s: %v, want Forbidden", who, object, object.GetName(), err)
		}
		for what, try := range changes(object) {
			if err := try(ctx, c); !apierrors.IsForbidden(err) {
				t.Errorf("%s tries to %s %T %s: %v, want Forbidden", who, what, object, object.GetName(), err)
			}
		}
	}
	for _, object := range p.forged() {
		if err := c.Create(ctx, object); !apierrors.IsForbidden(err) {
			t.Errorf("%s tries to create %T %s: %v, want Forbidden", who, object, object.GetName(), err)
		}
	}
}

// replace has somebody write an object as it is now, with a label more.
func (p *prey) replace(ctx context.Context, c client.Client, object client.Object) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		object.SetLabels(map[string]string{"forged": "yes"})
		return c.Update(ctx, object)
	})
}

// unread requires that somebody sees nothing of the objects.
func (p *prey) unread(t *testing.T, who string, c client.Client) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	for _, object := range p.objects() {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsForbidden(err) {
			t.Errorf("%s reads %T %s: %v, want Forbidden", who, object, object.GetName(), err)
		}
	}
	for _, list := range []client.ObjectList{&v1alpha1.RoleMemberList{}, &v1alpha1.NodeRolesList{}, &v1alpha1.ScaledEndpointList{}} {
		if err := c.List(ctx, list); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists %T: %v, want Forbidden", who, list, err)
		}
	}
}

// intact requires that all of the objects are as they were, and that packets find their way.
func (p *prey) intact(t *testing.T) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	for _, before := range []client.Object{p.member, p.verdict} {
		now := before.DeepCopyObject().(client.Object)
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(before), now); err != nil {
			t.Fatal(err)
		}
		if now.GetUID() != before.GetUID() || now.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("%T %s has changed: %+v", before, before.GetName(), now)
		}
	}
	p.reach(t, p.client, p.backend)
	p.expectOneOf(t, p.client, p.service, []*corev1.Pod{p.backend})
}

// TestRolesAndVerdicts_HostileWriters_NotForged has a tenant with all rights in its namespace, and
// the tokens of daemons. Each daemon may report about its own node alone.
func TestRolesAndVerdicts_HostileWriters_NotForged(t *testing.T) {
	t.Parallel()
	e := start(t)
	p := e.prey(t)
	attacker := e.Tenant(t, tenant("attacker", 2, 0))
	person := e.PersonWith(t, attacker.Namespace.Name, "cluster-admin").Client
	p.unread(t, "a tenant", person)
	p.refused(t, "a tenant", person)
	for _, node := range []string{e.plain[0], e.eligible[0]} {
		p.refused(t, "the daemon of "+node, e.Steal(t, node))
	}
	p.intact(t)

	// A daemon reports about its own member, and writes nothing else of it.
	own := e.Steal(t, e.eligible[1])
	member := p.member.DeepCopy()
	tries := changes(member)
	ctx := stage.Within(t, stage.Patience)
	for _, what := range slices.Sorted(maps.Keys(tries)) {
		err := tries[what](ctx, own)
		if reports := what == "change the status"; reports && err != nil || !reports && !apierrors.IsForbidden(err) {
			t.Errorf("the daemon of the member's node tries to %s: %v", what, err)
		}
	}
}
