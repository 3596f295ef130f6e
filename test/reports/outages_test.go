// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// outages has all outages, in the order of the test.
var outages = []*outage{noDaemons, noOperators, noRuntime}

// noDaemons is a time without daemons: their DaemonSet selects nodes that do not exist.
var noDaemons = &outage{
	begin: func(ctx context.Context, l *lab) error {
		return inTurn(ctx, l.selectNodes(`"true"`), l.awaitNone("daemon"))
	},
	end: func(ctx context.Context, l *lab) error {
		return inTurn(ctx, l.selectNodes("null"), func(ctx context.Context) error {
			return l.Lab.WaitDaemonSetReady(ctx, cluster.SystemNamespace, daemons)
		})
	},
}

// noOperators is a time without operators.
var noOperators = &outage{
	begin: func(ctx context.Context, l *lab) error {
		return inTurn(ctx, l.scaleOperators(0), l.awaitNone("operator"))
	},
	end: func(ctx context.Context, l *lab) error { return l.scaleOperators(1)(ctx) },
}

// noRuntime is a restart of the container runtime on the second node, without warning.
var noRuntime = &outage{
	begin: func(ctx context.Context, l *lab) error { return l.Lab.StopProcess(ctx, l.runtime()) },
	end: func(ctx context.Context, l *lab) error {
		return inTurn(ctx, func(ctx context.Context) error { return l.Lab.StartProcess(ctx, l.runtime()) }, l.Lab.WaitNodesReady)
	},
}

// inTurn does steps until one fails.
func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) runtime() string {
	_, second := l.Nodes()
	return second + "/containerd"
}

// daemons is the name of the daemons' DaemonSet.
const daemons = "alioth-cnid"

// selectNodes has the daemons' nodes need a label with a value, or not.
func (l *lab) selectNodes(value string) func(context.Context) error {
	patch := `{"spec":{"template":{"spec":{"nodeSelector":{"reports.alioth.dev/none":` + value + `}}}}}`
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.SystemNamespace, Name: daemons}}
	return func(ctx context.Context) error {
		return l.Client.Patch(ctx, set, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
}

// component selects the objects of a part of Alioth.
func component(name string) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": name}}
}

// awaitNone waits until a part of Alioth has no pods.
func (l *lab) awaitNone(name string) func(context.Context) error {
	look := func(ctx context.Context) (bool, string, error) {
		var list corev1.PodList
		err := l.Client.List(ctx, &list, component(name)...)
		return err == nil && len(list.Items) == 0, fmt.Sprintf("%d pods", len(list.Items)), err
	}
	return func(ctx context.Context) error { return scene.Until(ctx, "no pod of the "+name, look) }
}

// scaleOperators gives each Deployment of an operator a number of pods, and waits for new ones.
func (l *lab) scaleOperators(replicas int32) func(context.Context) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	return func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := l.Client.List(ctx, &list, component("operator")...); err != nil {
			return err
		}
		for i := range list.Items {
			if err := l.Client.Patch(ctx, &list.Items[i], patch); err != nil {
				return err
			}
		}
		for _, d := range list.Items {
			if err := l.Lab.WaitDeploymentReady(ctx, d.Namespace, d.Name); err != nil {
				return err
			}
		}
		return nil
	}
}
