// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// network makes a network of DANM for a tenant's pods, on a cable of its own between the
// nodes. Interfaces in it are named ext and a number.
func (l *lab) network(t *testing.T, tenant *scene.Tenant, cidr string, changes ...func(*danmv1.NetworkOptions)) *danmv1.DanmNet {
	t.Helper()
	cable := stage.Unique("rep")
	l.Cable(t, cable)
	network := &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: cable},
		Spec: danmv1.NetworkSpec{
			NetworkID: "external", NetworkType: "macvlan",
			Options: danmv1.NetworkOptions{HostDevice: cable, ContainerPrefix: "ext", CIDR: cidr},
		},
	}
	for _, change := range changes {
		change(&network.Spec.Options)
	}
	l.MakeNetwork(t, network)
	l.AwaitNetwork(t, network, func() []metav1.Condition { return network.Status.Conditions })
	return network
}

// with has a pod get an interface in its VPC, and one for each of these texts, which are
// requests without the name of the network.
func with(tenant *scene.Tenant, network *danmv1.DanmNet, requests ...string) scene.PodOption {
	list := []string{`{"vpc":"` + tenant.VPC.Name + `"}`}
	for _, request := range requests {
		list = append(list, `{"network":"`+network.Name+`",`+request+`}`)
	}
	return scene.WithInterfaces("[" + strings.Join(list, ",") + "]")
}

// Requests of an address.
const (
	dynamic  = `"ip":"dynamic"`
	dynamic6 = `"ip6":"dynamic"`
)
