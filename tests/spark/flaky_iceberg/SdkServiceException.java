package headrace.lake;

/** Stands for the exception of that name in Amazon's clients. */
public final class SdkServiceException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int status;

    SdkServiceException(int status) {
        super("the service says " + status);
        this.status = status;
    }

    public int statusCode() {
        return status;
    }
}
