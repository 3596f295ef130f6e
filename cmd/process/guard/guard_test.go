// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cmd/process/guard"
)

// reviewer is an API server with two tokens. One of them may get /metrics.
type reviewer struct {
	t     *testing.T
	away  bool
	asked []string
}

func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.URL.Path)
	if a.away {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
	}
	var answer any
	switch r.URL.Path {
	case tokenReviews:
		var who authenticationv1.TokenReview
		if err := json.Unmarshal(data, &who); err != nil {
			a.t.Error(err)
		}
		who.Status.User.Username, who.Status.User.Groups = who.Spec.Token, []string{"all"}
		who.Status.Authenticated = who.Spec.Token == "may" || who.Spec.Token == "may-not"
		answer = who
	case accessReviews:
		var may authorizationv1.SubjectAccessReview
		if err := json.Unmarshal(data, &may); err != nil {
			a.t.Error(err)
		}
		want := authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		may.Status.Allowed = may.Spec.User == "may" && len(may.Spec.Groups) == 1 && *may.Spec.NonResourceAttributes == want
		answer = may
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.t.Error(err)
	}
}

const (
	tokenReviews  = "/apis/authentication.k8s.io/v1/tokenreviews"
	accessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

func TestReviews_PermittedReader_ServedAndAskedOnce(t *testing.T) {
	api := &reviewer{t: t}
	server := httptest.NewServer(api)
	defer server.Close()
	handler, certificate, err := guard.Reviews{}.Protect(
		&rest.Config{Host: server.URL},
		"daemon",
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		slog.New(slog.DiscardHandler),
	)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificates[0].Certificate[0])
	if err != nil || leaf.VerifyHostname("daemon") != nil {
		t.Errorf("the server has the certificate %+v, %v", leaf, err)
	}
	for _, c := range []struct {
		name, method, path, authorization string
		away                              bool
		want                              int
		asked                             []string
	}{
		{name: "no token", want: 401},
		{name: "a password", authorization: "Basic bWF5Om1heQ==", want: 401},
		{name: "no word", authorization: "Bearer ", want: 401},
		{name: "a stranger", authorization: "Bearer stranger", want: 401, asked: []string{tokenReviews}},
		{name: "who may not", authorization: "Bearer may-not", want: 403, asked: []string{tokenReviews, accessReviews}},
		{name: "who may not, again", authorization: "Bearer may-not", want: 403, asked: []string{tokenReviews, accessReviews}},
		{name: "nobody to ask", authorization: "Bearer may", away: true, want: 500, asked: []string{tokenReviews}},
		{name: "who may", authorization: "bearer may", want: 200, asked: []string{tokenReviews, accessReviews}},
		{name: "who may, again", authorization: "Bearer may", away: true, want: 200},
		{name: "who may, something else", authorization: "Bearer may", method: http.MethodPost, want: 403, asked: []string{tokenReviews, accessReviews}},
		{name: "who may, elsewhere", authorization: "Bearer may", path: "/debug", want: 403, asked: []string{tokenReviews, accessReviews}},
	} {
		api.away, api.asked = c.away, nil
		method, path := http.MethodGet, "/metrics"
		if c.method != "" {
			method = c.method
		}
		if c.path != "" {
			path = c.path
		}
		request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		request.Header.Set("Authorization", c.authorization)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if diff := cmp.Diff(c.asked, api.asked); diff != "" || answer.Code != c.want {
			t.Errorf("%s: %d, want %d; asked (-want +got):\n%s", c.name, answer.Code, c.want, diff)
		}
	}
}
