// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
	"github.com/alioth-net/alioth/test/waits"
)

// script is an API server with the responses of a test.
type script struct {
	// requests receives the requests, each with a channel for its answer.
	requests chan scripted
	set      *reflector.Set
}

type scripted struct {
	*http.Request
	answer chan http.HandlerFunc
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := scripted{r, make(chan http.HandlerFunc)}
	select {
	case s.requests <- request:
		(<-request.answer)(w, r)
	case <-r.Context().Done():
	}
}

// follow starts a source of a scripted API server.
func follow(t *testing.T) (*script, *store.Store, *reflector.Source) {
	t.Helper()
	s := &script{requests: make(chan scripted)}
	server := httptest.NewServer(s)
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	set := reflector.NewSet(rows, newClient(t, &rest.Config{Host: server.URL}), slog.New(slog.DiscardHandler))
	s.set = set
	source := set.Start(t.Context(), vpcs.Address.Of[descriptor.AllAddresses]("blue"), func() {})
	t.Cleanup(server.Close) // the test's context has ended then, and so have requests
	return s, rows, source
}

// Requests of a source, beside watches from a version.
const (
	everything = "a watch that begins with what there is"
	list       = "a list not older than "
)

// askedFor describes the purpose of a request.
func askedFor(query url.Values) string {
	version := query.Get("resourceVersion")
	switch {
	case query.Get("watch") == "":
		return list + version
	case query.Get("sendInitialEvents") == "true" && query.Get("resourceVersionMatch") == "NotOlderThan" && version == "":
		return everything
	}
	return version
}

// expect waits for the next request, and answers it. It is for everything, a list,
// or a watch from a version.
func (s *script) expect(t *testing.T, want string, answer http.HandlerFunc) {
	t.Helper()
	select {
	case r := <-s.requests:
		query := r.URL.Query()
		if r.URL.Path != "/apis/alioth.dev/v1alpha1/addresses" || query.Get("fieldSelector") != "spec.vpc=blue" {
			t.Errorf("asked for %s", r.URL)
		}
		if got := askedFor(query); got != want {
			t.Errorf("asked for %s (%s), want %s", got, r.URL, want)
		}
		r.answer <- answer
	case <-time.After(waits.Limit(patience)):
		t.Fatalf("no request for %s", want)
	}
}

// says responds with these texts, and ends.
func says(status int, texts ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		for _, text := range texts {
			fmt.Fprint(w, text)
		}
	}
}

// goesOn answers with these texts, and waits until the client goes.
func goesOn(texts ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		says(http.StatusOK, texts...)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func jsonOf(t *testing.T, value any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func versioned(ip, version string) *v1alpha1.Address {
	obj := address("blue", "node-1", ip)
	obj.UID, obj.ResourceVersion = types.UID(ip), version
	return obj
}

func listed(t *testing.T, version string, objects ...*v1alpha1.Address) string {
	t.Helper()
	list := v1alpha1.AddressList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, obj := range objects {
		list.Items = append(list.Items, *obj)
	}
	return string(jsonOf(t, list))
}

// there returns the first events of a watch that begins with the existing objects.
func there(t *testing.T, version string, objects ...*v1alpha1.Address) string {
	t.Helper()
	text := message(t, "BOOKMARK", &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}})
	for _, obj := range objects {
		text += message(t, "ADDED", obj)
	}
	return text + message(t, "BOOKMARK", &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

func message(t *testing.T, kind string, object any) string {
	t.Helper()
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, jsonOf(t, object))
}

func TestWatch_Ends_ContinuedOrListedAgain(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old").Status()
	tooMany := apierrors.NewTooManyRequests("later", 0).Status()
	broken := apierrors.NewInternalError(io.ErrClosedPipe).Status()
	later := versioned("10.0.0.2", "12")
	added := message(t, "ADDED", later)
	bookmark := message(t, "BOOKMARK", &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "15"}})
	for name, tc := range map[string]struct {
		end  http.HandlerFunc
		want string
	}{
		"the API server ends it":                 {says(http.StatusOK, added), "12"},
		"after a bookmark":                       {says(http.StatusOK, added, bookmark), "15"},
		"in the middle of an event":              {says(http.StatusOK, added, bookmark[:40]), "12"},
		"with something else than an event":      {says(http.StatusOK, added, "<html>"), "12"},
		"with an event of an unknown type":       {says(http.StatusOK, added, message(t, "RENAMED", later)), "12"},
		"the connection breaks":                  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "10"},
		"the API server has too much to do":      {says(http.StatusOK, message(t, "ERROR", tooMany)), "10"},
		"the version is too old":                 {says(http.StatusGone, string(jsonOf(t, gone))), everything},
		"the version has become too old":         {says(http.StatusOK, message(t, "ERROR", gone)), everything},
		"the API server says that it has failed": {says(http.StatusOK, message(t, "ERROR", broken)), everything},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rows, source := follow(t)
			first := versioned("10.0.0.1", "9")
			s.expect(t, everything, says(http.StatusOK, there(t, "10", first)))
			s.expect(t, "10", tc.end)
			if tc.want == everything {
				s.expect(t, everything, goesOn(there(t, "20", later)))
				waitFor(t, rows, later)
				return
			}
			s.expect(t, tc.want, goesOn(message(t, "DELETED", first), message(t, "MODIFIED", later)))
			waitFor(t, rows, later)
			if !source.HasSynced() {
				t.Error("the source isn't in sync")
			}
		})
	}
}

func TestList_Fails_TriedAgainWithoutPartCounted(t *testing.T) {
	t.Parallel()
	s, rows, source := follow(t)
	only, other := versioned("10.0.0.1", "9"), versioned("10.0.0.7", "8")
	whole := there(t, "10", other, only)
	for _, answer := range []http.HandlerFunc{
		says(http.StatusOK, whole[:len(whole)-9]), says(http.StatusOK, message(t, "ADDED", other)), says(http.StatusOK, message(t, "DELETED", other), whole),
	} {
		s.expect(t, everything, answer)
		if source.HasSynced() {
			t.Fatal("a list that failed counts")
		}
	}
	s.expect(t, everything, goesOn(there(t, "11", only)))
	waitFor(t, rows, only)
}

func TestList_NoStreamingLists_PlainOneRequested(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil).Status()
	disabled := apierrors.NewInternalError(errors.ErrUnsupported).Status()
	gone := says(http.StatusGone, string(jsonOf(t, apierrors.NewResourceExpired("too old").Status())))
	for name, refuses := range map[string]http.HandlerFunc{
		"as Kubernetes 1.33 does":       says(http.StatusUnprocessableEntity, string(jsonOf(t, invalid))),
		"as it does with an older etcd": says(http.StatusOK, message(t, "ERROR", disabled)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rows, source := follow(t)
			only, later := versioned("10.0.0.1", "9"), versioned("10.0.0.2", "12")
			whole := listed(t, "10", versioned("10.0.0.7", "8"), only)
			s.expect(t, everything, refuses)
			s.expect(t, list+"0", says(http.StatusOK, whole[:len(whole)-9]))
			s.expect(t, everything, refuses)
			if source.HasSynced() {
				t.Error("a list that was cut off counts")
			}
			s.expect(t, list+"0", says(http.StatusOK, listed(t, "11", only)))
			s.expect(t, "11", gone)
			waitFor(t, rows, only)
			s.expect(t, everything, refuses)
			s.expect(t, list+"11", gone)
			s.expect(t, list, says(http.StatusOK, listed(t, "11", only)))
			s.expect(t, "11", goesOn(message(t, "ADDED", later)))
			waitFor(t, rows, only, later)
		})
	}
}

// TestList_PartOfKnownKind_FromCache: the list is not older than the set's rows of the kind. Once its
// watch has expired, the part is listed like every other.
func TestList_PartOfKnownKind_FromCache(t *testing.T) {
	t.Parallel()
	s, rows, _ := follow(t)
	only, next, later := versioned("10.0.0.1", "9"), versioned("10.0.0.3", "11"), versioned("10.0.0.2", "12")
	gone := says(http.StatusGone, string(jsonOf(t, apierrors.NewResourceExpired("too old").Status())))
	s.expect(t, everything, goesOn(there(t, "10", only), message(t, "ADDED", next)))
	waitFor(t, rows, only, next)
	s.set.Start(t.Context(), vpcs.Address.Of[descriptor.AllAddresses]("blue"), func() {})
	s.expect(t, list+"11", says(http.StatusServiceUnavailable))
	s.expect(t, list+"11", says(http.StatusOK, listed(t, "12", only, next, later)))
	s.expect(t, "12", gone)
	waitFor(t, rows, only, next, later)
	s.expect(t, everything, goesOn(there(t, "13", later)))
}

func TestWatch_ObjectUndecodable_OthersRead(t *testing.T) {
	t.Parallel()
	s, rows, _ := follow(t)
	good, bad := versioned("10.0.0.1", "9"), versioned("10.0.0.2", "8")
	unreadable := func(version string) string {
		bad.ResourceVersion = version
		return strings.Replace(string(jsonOf(t, bad)), `"node":"node-1"`, `"node":{"name":1}`, 1)
	}
	s.expect(t, everything, says(http.StatusOK, there(t, "10", good, bad)))
	later := versioned("10.0.0.3", "13")
	s.expect(t, "10", says(http.StatusOK, `{"type":"MODIFIED","object":`+unreadable("12")+`}`, message(t, "ADDED", later)))
	s.expect(t, "13", says(http.StatusGone, string(jsonOf(t, apierrors.NewResourceExpired("too old").Status()))))
	s.expect(t, everything, says(http.StatusOK, `{"type":"ADDED","object":`+unreadable("12")+`}`, there(t, "20", good)))
	s.expect(t, "20", says(http.StatusOK))
	waitFor(t, rows, good, bad)
	s.expect(t, "20", goesOn(`{"type":"DELETED","object":`+unreadable("21")+`}`))
	waitFor(t, rows, good)
}

func TestSource_StoppedDuringList_Ends(t *testing.T) {
	t.Parallel()
	s, rows, source := follow(t)
	s.expect(t, everything, goesOn(message(t, "ADDED", versioned("10.0.0.1", "9"))))
	source.Stop()
	waitFor(t, rows)
	if source.HasSynced() {
		t.Error("half a list counts")
	}
}

func TestSource_APIServerRestarts_GoesOn(t *testing.T) {
	c := newClient(t, server.Config(t))
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	set := reflector.NewSet(rows, c, slog.New(slog.DiscardHandler))
	kept := address("away", "node-1", "10.0.0.1")
	create(t, c, kept)
	source := start(t, set, vpcs.Address.Of[descriptor.AllAddresses]("away"))
	waitFor(t, rows, kept)
	server.Server(t).Interrupt()
	waitFor(t, rows, kept)
	if err := server.Server(t).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	later := address("away", "node-1", "10.0.0.2")
	create(t, c, later)
	waitFor(t, rows, kept, later)
	source.Stop()
	waitFor(t, rows)
}

func TestSource_RefusedThenAllowed_GoesOn(t *testing.T) {
	config := server.Config(t)
	admin := newClient(t, config)
	held := address("refused", "node-1", "10.0.0.1")
	create(t, admin, held)
	config.Impersonate = rest.ImpersonationConfig{UserName: "refused"}
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	complaints := &complaints{reported: make(chan string, 100)}
	set := reflector.NewSet(rows, newClient(t, config), slog.New(complaints))
	synced := make(chan struct{})
	set.Start(t.Context(), vpcs.Address.Of[descriptor.AllAddresses]("refused"), func() { close(synced) })
	select {
	case reported := <-complaints.reported:
		if !strings.Contains(reported, `cannot list resource "addresses"`) {
			t.Errorf("the log says %s", reported)
		}
	case <-time.After(waits.Limit(patience)):
		t.Fatal("nobody is told")
	}
	allow(t, server.Config(t), "refused")
	waits.Receive(t, patience, "the source gets in sync", synced)
	waitFor(t, rows, held)
}

// complaints passes on the logged messages.
type complaints struct {
	slog.Handler
	reported chan string
}

func (c *complaints) Enabled(context.Context, slog.Level) bool { return true }

func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	select {
	case c.reported <- text:
	default:
	}
	return nil
}

// allow lets a user follow Addresses.
func allow(t *testing.T, config *rest.Config, user string) {
	t.Helper()
	rbac := kubernetes.NewForConfigOrDie(config).RbacV1()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"addresses"}, Verbs: []string{"list", "watch"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := rbac.ClusterRoleBindings().Delete(ctx, user, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := rbac.ClusterRoles().Delete(ctx, user, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// TestSource_Running_TwoGoroutines is about a node's memory: there is a source for
// each of its VPCs. One goroutine is the source's, one its HTTP/2 stream's.
func TestSource_Running_TwoGoroutines(t *testing.T) {
	const sources, others = 100, 20
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	set := reflector.NewSet(rows, newClient(t, server.Config(t)), slog.New(slog.DiscardHandler))
	before := runtime.NumGoroutine()
	var list []*reflector.Source
	for i := range sources {
		list = append(list, start(t, set, vpcs.Address.Of[descriptor.AllAddresses](fmt.Sprintf("idle-%d", i))))
	}
	deadline := time.After(waits.Limit(patience))
	for grown := sources; grown > 0; {
		select {
		case <-deadline:
			buffer := make([]byte, 1<<20)
			t.Fatalf("%d goroutines too many\n%s", grown, buffer[:runtime.Stack(buffer, true)])
		case <-time.After(10 * time.Millisecond):
			grown = runtime.NumGoroutine() - before - 2*sources - others
		}
	}
	for _, source := range list {
		source.Stop()
	}
}
