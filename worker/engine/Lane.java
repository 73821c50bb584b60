package headrace;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.ReadableByteChannel;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.commons.lang3.SerializationUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedUnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.immutable.Seq;

/**
 * A thread that runs programs over the batches that come through a pipe. `lane.py` is the other end.
 *
 * A request is the program's number, the number and bytes of the batches that follow, and a flag, true if they are in
 * the memory that both ends share: Arrow record batches without their schema. An answer is its length in bytes, the
 * same flag, and one record batch; or a negative length after an error, which `rethrow` throws. A request without
 * batches ends a program.
 *
 * It names classes that are private to Spark; seen in 4.2.1 and 4.3.0.
 */
public final class Lane implements Runnable {
    /** The most bytes of each buffer kept for the next request. */
    static final int KEPT_BYTES = 1 << 20;
    /** A longer answer goes into the shared memory, if it fits. */
    static final int PIPED_BYTES = 1 << 16;
    /** The most bytes that all programs together keep for their rows. */
    static final int KEPT_ROWS_BYTES = 8 << 20;

    /** Compiles one program after the other, for all lanes. */
    static final ThreadPoolExecutor COMPILER = new ThreadPoolExecutor(1, 1, 1L, TimeUnit.SECONDS,
        new LinkedBlockingQueue<>(), work -> daemon(work, "headrace-compiler"));

    static {
        COMPILER.allowCoreThreadTimeOut(true);
    }

    private final Map<Integer, Program> programs = new ConcurrentHashMap<>();
    private SparkSession session;
    private BufferAllocator allocator;
    private DataInputStream requests;
    private FileOutputStream answers;
    private ByteBuffer shared;
    private byte[] given = new byte[1 << 16];
    private Answer answer;
    private volatile Throwable failure;
    private volatile boolean isGivenUp;
    private volatile boolean runs = true;
    private volatile int kernelId;

    /** Begins to serve the pipes, which the other end has opened; `memory`: a file of shared memory, empty for none. */
    public void open(SparkSession ofRows, String requestPipe, String answerPipe, String memory) throws IOException {
        session = ofRows;
        shared = memory.isEmpty() ? ByteBuffer.allocate(0) : mapped(memory);
        answer = new Answer(shared);
        requests = new DataInputStream(new BufferedInputStream(new FileInputStream(requestPipe), 1 << 16));
        answers = new FileOutputStream(answerPipe);
        allocator = ArrowUtils.rootAllocator().newChildAllocator("headrace", 0L, Long.MAX_VALUE);
        daemon(this, "headrace-lane").start();
    }

    private static Thread daemon(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }

    private static ByteBuffer mapped(String memory) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(memory, "rw")) {
            return file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0L, file.length());
        }
    }

    /** Adds a program: bound expressions that turn rows of one Arrow schema into rows of the other. */
    public void add(int number, byte[] reads, byte[] gives, List<Seq<Expression>> bound, int interpretedRows)
            throws IOException {
        Projections projections = new Projections(bound, interpretedRows, session);
        programs.put(number, new Program(schema(reads), schema(gives), projections, allocator, this));
    }

    /** Reads a schema, as Arrow writes it at the beginning of a stream. */
    private static Schema schema(byte[] written) throws IOException {
        return MessageSerializer.deserializeSchema(new ReadChannel(new Bytes(ByteBuffer.wrap(written))));
    }

    /** Throws the error of the last request. */
    public void rethrow() throws Throwable {
        throw failure;
    }

    /** Computes no further row: nobody waits for the answer. */
    public void giveUp() {
        isGivenUp = true;
    }

    /** True until its thread has ended. */
    public boolean isRunning() {
        return runs;
    }

    /** The system's number of its thread; 0 if unknown. */
    public int kernelId() {
        return kernelId;
    }

    @Override
    public void run() {
        kernelId = ownKernelId();
        SparkSession.setActiveSession(session);
        try {
            while (true) {
                serve();
            }
        } catch (EOFException closed) {
            // The other end has closed the lane.
        } catch (IOException gone) {
            // The worker is gone.
        } finally {
            runs = false;
            close();
        }
    }

    private static int ownKernelId() {
        try {
            return Integer.parseInt(Files.readSymbolicLink(Paths.get("/proc/thread-self")).getFileName().toString());
        } catch (Exception otherSystem) {
            return 0;
        }
    }

    private void serve() throws IOException {
        int number = requests.readInt();
        int batches = requests.readInt();
        int length = requests.readInt();
        boolean isShared = requests.readBoolean();
        if (batches == 0) {
            Program ended = programs.remove(number);
            if (ended != null) {
                ended.close();
            }
            return;
        }
        failure = null;
        Program program = programs.get(number);
        if (isShared) {
            run(program, batches, new Bytes(shared.duplicate().limit(length)));
        } else if (hasRoom(length)) {
            requests.readFully(given, 0, length);
            run(program, batches, new Bytes(ByteBuffer.wrap(given, 0, length)));
        } else {
            passOver(length);
        }
        if (failure != null) {
            answer.fail();
        }
        boolean isLarge = given.length > KEPT_BYTES || answer.capacity() > KEPT_BYTES
                || allocator.getAllocatedMemory() > KEPT_ROWS_BYTES;
        if (isLarge || failure != null) {
            release();
        }
        answers.write(answer.bytes(), 0, answer.length());
        if (isLarge) {
            given = new byte[1 << 16];
            answer = new Answer(shared);
        }
    }

    private boolean hasRoom(int length) {
        try {
            if (given.length < length) {
                given = new byte[length];
            }
            return true;
        } catch (OutOfMemoryError tooLarge) {
            failure = tooLarge;
            return false;
        }
    }

    /** Reads the bytes of a request that is not run; a pipe cannot skip them. */
    private void passOver(int length) throws IOException {
        for (int left = length; left > 0; ) {
            int some = Math.min(left, given.length);
            requests.readFully(given, 0, some);
            left -= some;
        }
    }

    private void run(Program program, int batches, Bytes source) {
        try {
            program.run(source, batches, answer);
        } catch (Throwable thrown) {
            failure = thrown;
        }
    }

    /** Frees the memory that programs keep for the rows of the next request. */
    private void release() {
        programs.values().forEach(Program::close);
    }

    private void close() {
        close(requests);  // the pipes first, to end the other end's waits
        close(answers);
        release();
        allocator.close();
    }

    private static void close(Closeable pipe) {
        try {
            pipe.close();
        } catch (IOException closed) {
            // It is gone.
        }
    }

    /** A channel that reads or writes a buffer. */
    static final class Bytes implements ByteChannel {
        private final ByteBuffer buffer;

        Bytes(ByteBuffer ofBytes) {
            buffer = ofBytes;
        }

        @Override
        public int read(ByteBuffer to) {
            int count = Math.min(to.remaining(), buffer.remaining());
            if (count == 0 && to.hasRemaining()) {
                return -1;
            }
            to.put(buffer.duplicate().limit(buffer.position() + count));
            buffer.position(buffer.position() + count);
            return count;
        }

        @Override
        public int write(ByteBuffer from) {
            int count = from.remaining();
            buffer.put(from);
            return count;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {
        }
    }

    /** The piped part of an answer: its length, the flag of shared memory, and the batch if that is not set. */
    static final class Answer extends ByteArrayOutputStream {
        static final int HEAD = 9;
        private final ByteBuffer shared;
        private long sharedLength;

        Answer(ByteBuffer ofMemory) {
            super(1 << 16);
            shared = ofMemory;
        }

        /** Serializes this batch in the place of the last one. */
        void take(ArrowRecordBatch batch) throws IOException {
            count = HEAD;
            sharedLength = 0;
            long most = batch.computeBodyLength() + 1024 + 64L * (batch.getNodes().size() + batch.getBuffers().size());
            if (most > PIPED_BYTES && most <= shared.capacity()) {
                WriteChannel channel = new WriteChannel(new Bytes(shared.duplicate()));
                MessageSerializer.serialize(channel, batch);
                sharedLength = channel.getCurrentPosition();
            } else {
                MessageSerializer.serialize(new WriteChannel(Channels.newChannel(this)), batch);
            }
        }

        void fail() {
            count = 0;
            sharedLength = 0;
        }

        byte[] bytes() {
            ByteBuffer head = ByteBuffer.wrap(buf);
            head.putLong(sharedLength > 0 ? sharedLength : count - HEAD).put((byte) (sharedLength > 0 ? 1 : 0));
            return buf;
        }

        int length() {
            return Math.max(HEAD, count);
        }

        int capacity() {
            return buf.length;
        }
    }

    /** The projections of a program: interpreted at first, compiled in the background after enough rows. */
    static final class Projections {
        private final List<Seq<Expression>> expressions;
        private final SparkSession session;
        private int interpretedRows;
        private UnsafeProjection[] chain;
        private volatile UnsafeProjection[] compiled;

        /** `expressions` are sequences, each bound to the output of the one before. */
        Projections(List<Seq<Expression>> ofExpressions, int interpretedRows, SparkSession session) {
            expressions = new ArrayList<>(ofExpressions);
            this.interpretedRows = interpretedRows;
            this.session = session;
            chain = expressions.stream().map(InterpretedUnsafeProjection::createProjection)
                .toArray(UnsafeProjection[]::new);
            if (interpretedRows == 0) {
                compile();
                chain = compiled;
            }
        }

        InternalRow apply(InternalRow row) {
            if (interpretedRows > 0 && --interpretedRows == 0) {
                compileBeside();
            } else if (interpretedRows == 0 && chain != compiled && compiled != null) {
                chain = compiled;
            }
            for (UnsafeProjection one : chain) {
                row = one.apply(row);
            }
            return row;
        }

        private void compileBeside() {
            expressions.replaceAll(Projections::copy);  // some keep a state, so no two threads share one
            COMPILER.execute(() -> {
                SparkSession.setActiveSession(session);
                compile();
            });
        }

        @SuppressWarnings("unchecked")
        private static Seq<Expression> copy(Seq<Expression> expressions) {
            return (Seq<Expression>) SerializationUtils.clone((Serializable) expressions);
        }

        private void compile() {
            compiled = expressions.stream().map(UnsafeProjection::create).toArray(UnsafeProjection[]::new);
            expressions.clear();
        }
    }

    /** A program, and the memory for its input and output rows. */
    static final class Program {
        private final Schema reads;
        private final Schema gives;
        private final Projections projections;
        private final BufferAllocator allocator;
        private final Lane lane;
        private VectorSchemaRoot input;
        private VectorLoader loader;
        private ColumnarBatch rows;
        private VectorSchemaRoot output;
        private ArrowWriter writer;
        private VectorUnloader unloader;

        Program(Schema reads, Schema gives, Projections projections, BufferAllocator allocator, Lane lane) {
            this.reads = reads;
            this.gives = gives;
            this.projections = projections;
            this.allocator = allocator;
            this.lane = lane;
        }

        void run(ReadableByteChannel source, int batches, Answer answer) throws IOException {
            if (writer == null) {
                open();
            }
            ReadChannel channel = new ReadChannel(source);
            for (int i = 0; i < batches; i++) {
                try (ArrowRecordBatch batch = MessageSerializer.deserializeRecordBatch(channel, allocator)) {
                    loader.load(batch);
                }
                project(input.getRowCount());
                input.clear();
            }
            writer.finish();
            try (ArrowRecordBatch made = unloader.getRecordBatch()) {
                answer.take(made);
            }
            writer.reset();
        }

        private void project(int count) {
            rows.setNumRows(count);
            for (int i = 0; i < count; i++) {
                if (lane.isGivenUp) {
                    throw new CancellationException("nobody waits for the answer");
                }
                writer.write(projections.apply(rows.getRow(i)));
            }
        }

        private void open() {
            input = VectorSchemaRoot.create(reads, allocator);
            loader = new VectorLoader(input);
            rows = new ColumnarBatch(
                input.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new));
            output = VectorSchemaRoot.create(gives, allocator);
            output.getFieldVectors().forEach(vector -> vector.setInitialCapacity(64));
            writer = ArrowWriter.create(output);
            unloader = new VectorUnloader(output);
        }

        void close() {
            if (input != null) {
                input.close();
                input = null;
            }
            if (output != null) {
                output.close();
                output = null;
            }
            writer = null;
        }
    }
}
