// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard limits an HTTP server to users that the API server authenticates and
// authorizes: it checks each bearer token (TokenReview), and the user's right to the
// request's verb and path (SubjectAccessReview).
package guard

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/store/client/kube"
)

const (
	// allowedFor is how long a permission is cached. Refusals are not cached, so that strangers
	// can't fill the cache.
	allowedFor = time.Minute
	// Requests per second to the API server that strangers can cause.
	askQPS, askBurst = 5, 10
	// certifiedFor is the life of a certificate, which each start of a program makes anew.
	certifiedFor = 10 * 365 * 24 * time.Hour
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
)

// guard stands before a handler.
type guard struct {
	api  *kube.Client
	next http.Handler
	log  *slog.Logger

	mu sync.Mutex
	// allowed has until when a request is allowed, by its digest.
	allowed map[[sha256.Size]byte]time.Time
}

// Reviews protects servers by reviews of the API server.
type Reviews struct{}

// Protect returns a handler that lets through to next only users that the API server authorizes,
// and the configuration of TLS of a server with the name of a component. Other users get 401 or
// 403, and 500 while the API server can't be asked.
func (Reviews) Protect(
	config *rest.Config,
	component string,
	next http.Handler,
	log *slog.Logger,
) (http.Handler, *tls.Config, error) {
	handler, err := newGuard(config, next, log)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := selfSigned(component)
	if err != nil {
		return nil, nil, err
	}
	return handler, certificate, nil
}

func newGuard(config *rest.Config, next http.Handler, log *slog.Logger) (*guard, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API kinds: %w", err)
	}
	config = rest.CopyConfig(config)
	config.RateLimiter, config.QPS, config.Burst = nil, askQPS, askBurst
	api, err := kube.New(config, scheme)
	if err != nil {
		return nil, err
	}
	return &guard{api: api, next: next, log: log, allowed: map[[sha256.Size]byte]time.Time{}}, nil
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := g.judge(r)
	if err != nil {
		g.log.Warn("can't check the reader's rights at the API server", "path", r.URL.Path, "error", err)
	}
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	g.next.ServeHTTP(w, r)
}

// judge returns the status of the answer.
func (g *guard) judge(r *http.Request) (int, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	asked := authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	digest := sha256.Sum256([]byte(asked.Verb + " " + asked.Path + "\x00" + token))
	if g.remembers(digest) {
		return http.StatusOK, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	status, err := g.ask(ctx, token, asked)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	if status == http.StatusOK {
		g.remember(digest)
	}
	return status, nil
}

func (g *guard) ask(ctx context.Context, token string, asked authorizationv1.NonResourceAttributes) (int, error) {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.api.Create(ctx, who); err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &asked, User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
	}}
	if err := g.api.Create(ctx, may); err != nil {
		return 0, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (g *guard) remembers(digest [sha256.Size]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.allowed[digest])
}

// remember notes an allowed token, and forgets expired ones: tokens change.
func (g *guard) remember(digest [sha256.Size]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for other, until := range g.allowed {
		if now.After(until) {
			delete(g.allowed, other)
		}
	}
	g.allowed[digest] = now.Add(allowedFor)
}

// selfSigned makes a certificate for a server of this name that clients need not trust:
// TLS only protects the tokens from eavesdropping. An elliptic key costs a starting daemon
// no time.
func selfSigned(name string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certifiedFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	pair := tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
