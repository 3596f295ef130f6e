// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission shows which requests the chart's admission policies and roles allow and refuse,
// on the real API server.
package admission_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/api/inforce"
	"github.com/alioth-net/alioth/test/waits"
)

const (
	root = "../../.."
	// settleWithin bounds how long the API server may take to notice a new
	// object that a policy has as its parameter. Usually that is milliseconds.
	settleWithin = 10 * time.Second
	settleEvery  = 50 * time.Millisecond
)

// cluster is an API server with the chart's roles and policies in force.
type cluster struct {
	server apiserver.Shared
	once   sync.Once
}

var shared cluster

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard()) // clients log nothing that a test would miss
	os.Exit(shared.server.Run(m))
}

// start returns the administrator's client, and on first use installs the
// chart's roles and policies.
func start(t *testing.T) client.Client {
	t.Helper()
	config := shared.server.Config(t)
	admin := newClient(t, config)
	shared.once.Do(func() {
		makeFormerEnactments(t, admin)
		inforce.Install(t, root, admin, as(t, operator()),
			"admission.hostFolders.refused={/mnt/./link},admission.hostFolders.writable={/srv/shared/},daemon.cniBinDir=/lib/cni")
	})
	return admin
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, arktosv1.AddToScheme, danmv1.AddToScheme, danmiov1.AddToScheme,
		nmstatev1.AddToScheme, nmstatev1beta1.AddToScheme, multitenancyv1alpha1.AddToScheme, acnv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// user sends requests under a name.
type user struct {
	name   string
	groups []string
	// node is the node of the pod that a ServiceAccount's token is bound to.
	node string
}

func operator() user { return serviceAccount(chart.OperatorUser, "node-a") }

func daemonOn(node string) user { return serviceAccount(chart.DaemonUser, node) }

func serviceAccount(name, node string) user {
	return user{name: name, groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + chart.Namespace, "system:authenticated"}, node: node}
}

// kubelet returns the kubelet of node-a.
func kubelet() user { return kubeletOn("node-a") }

func kubeletOn(node string) user {
	return user{name: "system:node:" + node, groups: []string{"system:nodes", "system:authenticated"}}
}

func person(name string) user { return user{name: name, groups: []string{"system:authenticated"}} }

// clusterAdmin may do everything that roles can allow.
func clusterAdmin() user {
	return user{name: "root", groups: []string{"system:masters", "system:authenticated"}}
}

// as returns a client that sends requests as a user.
func as(t *testing.T, u user) client.Client {
	t.Helper()
	return newClient(t, configAs(t, u))
}

func configAs(t *testing.T, u user) *rest.Config {
	t.Helper()
	config := shared.server.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: u.name, Groups: u.groups}
	if u.node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {u.node}}
	}
	return config
}

// grant gives a person a ClusterRole's rights everywhere.
func grant(t *testing.T, admin client.Client, who user, role string) {
	t.Helper()
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: who.name + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who.name}},
	})
	untilGranted(t, admin, "", who, role)
}

// grantIn gives a person a ClusterRole's rights in one namespace.
func grantIn(t *testing.T, admin client.Client, namespace string, who user, role string) {
	t.Helper()
	create(t, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: who.name + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who.name}},
	})
	untilGranted(t, admin, namespace, who, role)
}

// untilGranted waits until the API server's authorizer, which follows roles and bindings
// by watching them, gives a person a role's rights.
func untilGranted(t *testing.T, admin client.Client, namespace string, who user, role string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var granted rbacv1.ClusterRole
		if err := admin.Get(ctx, client.ObjectKey{Name: role}, &granted); err != nil {
			return err
		}
		for _, rule := range granted.Rules {
			if len(rule.Resources) == 0 {
				continue
			}
			attributes := authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Namespace: namespace}
			attributes.Resource, attributes.Subresource, _ = strings.Cut(rule.Resources[0], "/")
			if len(rule.ResourceNames) > 0 {
				attributes.Name = rule.ResourceNames[0]
			}
			review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: who.name, Groups: who.groups, ResourceAttributes: &attributes,
			}}
			if err := admin.Create(ctx, &review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("%s may not yet %s %s as %s may", who.name, attributes.Verb, rule.Resources[0], role)
			}
		}
		return nil
	})
}

// grantRules makes a ClusterRole of rules and gives it to a person.
func grantRules(t *testing.T, admin client.Client, who user, role string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	create(t, admin, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules})
	grant(t, admin, who, role)
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// attempt is one request and its result.
type attempt struct {
	name string
	who  user
	do   func(ctx context.Context, c client.Client) error
	// refused is part of the refusal; "" when the request is allowed.
	refused string
}

// run makes the requests one after the other. A request that should be refused
// is repeated while it is not, because parameters take a moment to arrive:
// such a request must be a dry run.
func run(t *testing.T, attempts []attempt) {
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			c := as(t, a.who)
			if a.refused == "" {
				if err := a.do(t.Context(), c); err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			eventually(t, func(ctx context.Context) error { return wantRefused(a.do(ctx, c), a.refused) })
		})
	}
}

// wantRefused returns an error unless err is a refusal that contains text.
func wantRefused(err error, text string) error {
	switch {
	case err == nil:
		return fmt.Errorf("allowed, want a refusal with %q", text)
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		return fmt.Errorf("failed otherwise than by a refusal: %w", err)
	case !strings.Contains(err.Error(), text):
		return fmt.Errorf("want %q in the refusal: %w", text, err)
	}
	return nil
}

// eventually repeats check until it returns nil.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	eventuallyWithin(t, settleWithin, check)
}

func eventuallyWithin(t *testing.T, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	last := error(nil)
	err := wait.PollUntilContextTimeout(t.Context(), settleEvery, waits.Limit(limit), true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			last = err // and not that time was up
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}
