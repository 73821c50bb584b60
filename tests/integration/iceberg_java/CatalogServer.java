package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NamespaceNotEmptyException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.example.TableTool;

/**
 * A REST catalog for tests: Iceberg's own request handlers over another catalog, OAuth2, and faults on request.
 *
 * <p>Arguments: port, client id, client secret (empty: nobody logs in), seconds that a token lives, then properties of the catalog behind it.
 * A POST to /faults names, one a line, what happens to the next commits; one to /tool/ACTION runs {@link TableTool}.
 */
public final class CatalogServer {
  private static final ObjectMapper JSON = RESTObjectMapper.mapper();

  private final Catalog catalog;
  private final SupportsNamespaces namespaces;
  private final String clientId;
  private final String secret;
  private final long tokenSeconds;
  private final Map<String, Long> tokens = new ConcurrentHashMap<>();
  private final Queue<String> faults = new ArrayDeque<>();
  private int held;
  private long releases;

  private record Tool(Map<String, String> catalog, String table, String branch) {}

  private CatalogServer(Catalog catalog, String clientId, String secret, long tokenSeconds) {
    this.catalog = catalog;
    this.namespaces = (SupportsNamespaces) catalog;
    this.clientId = clientId;
    this.secret = secret;
    this.tokenSeconds = tokenSeconds;
  }

  public static void main(String[] arguments) throws IOException {
    Map<String, String> properties = new HashMap<>();
    for (String each : Arrays.asList(arguments).subList(4, arguments.length)) {
      String[] pair = each.split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    Catalog catalog = CatalogUtil.buildIcebergCatalog("behind", properties, new Configuration());
    CatalogServer served = new CatalogServer(catalog, arguments[1], arguments[2], Long.parseLong(arguments[3]));
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
    server.createContext("/", served::handle);
    server.setExecutor(Executors.newFixedThreadPool(8));
    server.start();
  }

  private void handle(HttpExchange exchange) {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      try {
        answer(exchange, body);
      } catch (RuntimeException error) {
        refuse(exchange, statusOf(error), error.getClass().getSimpleName(), String.valueOf(error.getMessage()));
      }
    } catch (IOException gone) {
      // The client left, or a fault closed its connection.
    }
  }

  private void answer(HttpExchange exchange, byte[] body) throws IOException {
    String path = exchange.getRequestURI().getRawPath();
    String text = new String(body, StandardCharsets.UTF_8);
    if (path.equals("/faults")) {
      faults(exchange, text);
    } else if (path.startsWith("/tool/")) {
      Tool wanted = JSON.readValue(text, Tool.class);
      String action = path.substring("/tool/".length());
      send(exchange, 200, TableTool.run(action, wanted.catalog(), wanted.table(), wanted.branch()));
    } else if (path.equals("/v1/oauth/tokens")) {
      giveToken(exchange, text);
    } else if (!isKnown(exchange.getRequestHeaders().getFirst("Authorization"))) {
      refuse(exchange, 401, "NotAuthorizedException", "no token, or one that is too old");
    } else {
      route(exchange, exchange.getRequestMethod(), List.of(path.substring(1).split("/")), text);
    }
  }

  private void faults(HttpExchange exchange, String wanted) throws IOException {
    synchronized (faults) {
      if (exchange.getRequestMethod().equals("POST")) {
        releases++;
        faults.notifyAll();
        faults.clear();
        wanted.lines().forEach(faults::add);
      }
      send(exchange, 200, held);
    }
  }

  private void hold() {
    synchronized (faults) {
      long until = releases + 1;
      held++;
      try {
        while (releases < until) {
          faults.wait();
        }
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      } finally {
        held--;
      }
    }
  }

  private void giveToken(HttpExchange exchange, String form) throws IOException {
    Map<String, String> fields = RESTUtil.decodeFormData(form);
    boolean renews = isKnown("Bearer " + fields.get("subject_token"));
    if (!renews && !(clientId.equals(fields.get("client_id")) && secret.equals(fields.get("client_secret")))) {
      send(exchange, 401, Map.of("error", "invalid_client", "error_description", "unknown id or secret"));
      return;
    }
    String token = UUID.randomUUID().toString();
    tokens.put(token, System.nanoTime() + tokenSeconds * 1_000_000_000L);
    String kind = "urn:ietf:params:oauth:token-type:access_token";
    send(exchange, 200, Map.of("access_token", token, "token_type", "bearer", "expires_in", tokenSeconds,
        "issued_token_type", kind));
  }

  private boolean isKnown(String authorization) {
    if (secret.isEmpty()) {
      return true;
    }
    if (authorization == null || !authorization.startsWith("Bearer ")) {
      return false;
    }
    Long until = tokens.get(authorization.substring("Bearer ".length()));
    return until != null && System.nanoTime() < until;
  }

  private void route(HttpExchange exchange, String method, List<String> path, String body) throws IOException {
    if (path.equals(List.of("v1", "config"))) {
      send(exchange, 200, ConfigResponse.builder().build());
    } else if (path.equals(List.of("v1", "namespaces"))) {
      if (method.equals("POST")) {
        CreateNamespaceRequest wanted = JSON.readValue(body, CreateNamespaceRequest.class);
        send(exchange, 200, CatalogHandlers.createNamespace(namespaces, wanted));
      } else {
        send(exchange, 200, CatalogHandlers.listNamespaces(namespaces, Namespace.empty()));
      }
    } else if (path.size() < 3 || !path.subList(0, 2).equals(List.of("v1", "namespaces"))) {
      refuse(exchange, 404, "NotFoundException", "there is no such endpoint");
    } else {
      String separator = RESTUtil.NAMESPACE_SEPARATOR_URLENCODED_UTF_8;
      Namespace namespace = RESTUtil.decodeNamespaceAsPathSegment(path.get(2), separator);
      if (path.size() == 3) {
        namespace(exchange, method, namespace);
      } else if (path.size() == 4) {
        tables(exchange, method, namespace, body);
      } else if (path.size() == 5) {
        table(exchange, method, TableIdentifier.of(namespace, RESTUtil.decodePathSegment(path.get(4))), body);
      } else {
        send(exchange, 204, null); // a report of metrics
      }
    }
  }

  private void namespace(HttpExchange exchange, String method, Namespace namespace) throws IOException {
    if (method.equals("DELETE")) {
      CatalogHandlers.dropNamespace(namespaces, namespace);
      send(exchange, 204, null);
    } else {
      var found = CatalogHandlers.loadNamespace(namespaces, namespace);
      send(exchange, method.equals("HEAD") ? 204 : 200, method.equals("HEAD") ? null : found);
    }
  }

  private void tables(HttpExchange exchange, String method, Namespace namespace, String body) throws IOException {
    if (!method.equals("POST")) {
      send(exchange, 200, CatalogHandlers.listTables(catalog, namespace));
      return;
    }
    CreateTableRequest wanted = JSON.readValue(body, CreateTableRequest.class);
    send(exchange, 200, wanted.stageCreate()
        ? CatalogHandlers.stageTableCreate(catalog, namespace, wanted)
        : CatalogHandlers.createTable(catalog, namespace, wanted));
  }

  private void table(HttpExchange exchange, String method, TableIdentifier table, String body) throws IOException {
    switch (method) {
      case "POST" -> commit(exchange, table, body);
      case "DELETE" -> {
        CatalogHandlers.dropTable(catalog, table);
        send(exchange, 204, null);
      }
      case "HEAD" -> {
        CatalogHandlers.tableExists(catalog, table);
        send(exchange, 204, null);
      }
      default -> send(exchange, 200, CatalogHandlers.loadTable(catalog, table, SnapshotMode.ALL));
    }
  }

  private void commit(HttpExchange exchange, TableIdentifier table, String body) throws IOException {
    String asked;
    synchronized (faults) {
      asked = faults.isEmpty() ? "" : faults.remove();
    }
    String fault = asked.replace("applied-", "");
    boolean isHeld = fault.equals("hold");
    if (isHeld && asked.equals(fault)) {
      hold();
    }
    Object done = fault.isEmpty() || isHeld || !asked.equals(fault)
        ? CatalogHandlers.updateTable(catalog, table, JSON.readValue(body, UpdateTableRequest.class)) : null;
    if (isHeld && !asked.equals(fault)) {
      hold();
    }
    switch (fault) {
      case "", "hold" -> send(exchange, 200, done);
      case "cut" -> { }
      default -> refuse(exchange, Integer.parseInt(fault), "CommitFailedException", "a fault that the test asked for");
    }
  }

  private static int statusOf(RuntimeException error) {
    if (error instanceof NoSuchTableException || error instanceof NoSuchNamespaceException) {
      return 404;
    }
    Set<Class<?>> conflicts =
        Set.of(AlreadyExistsException.class, CommitFailedException.class, NamespaceNotEmptyException.class);
    if (conflicts.contains(error.getClass())) {
      return 409;
    }
    return error instanceof IllegalArgumentException ? 400 : 500;
  }

  private static void refuse(HttpExchange exchange, int status, String type, String message) throws IOException {
    var response = ErrorResponse.builder().responseCode(status).withType(type).withMessage(message).build();
    send(exchange, status, exchange.getRequestMethod().equals("HEAD") ? null : response);
  }

  private static void send(HttpExchange exchange, int status, Object answer) throws IOException {
    if (answer == null) {
      exchange.sendResponseHeaders(status, -1);
      return;
    }
    byte[] text = JSON.writeValueAsBytes(answer);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, text.length);
    exchange.getResponseBody().write(text);
  }
}
